#include "agent/hook_signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/loop.h"

namespace berth::agent {
namespace {

TEST(Witness, TellsOfATermAndIgnoresTheRest) {
  auto witness = Witness::start();
  ASSERT_TRUE(witness) << witness.error().message;
  runtime::Loop loop;
  EXPECT_NE(getsid((*witness)->pid()), getsid(0));
  kill((*witness)->pid(), SIGUSR1);
  kill((*witness)->pid(), SIGINT);
  kill((*witness)->pid(), SIGTERM);
  EXPECT_TRUE(loop.run_until((*witness)->saw_term(loop)));
  EXPECT_EQ(kill((*witness)->pid(), 0), 0);
  witness->reset();
}

TEST(Witness, DiesWithTheAgent) {
  int pids[2];
  ASSERT_EQ(pipe(pids), 0);
  pid_t agent = fork();
  if (agent == 0) {
    auto witness = Witness::start();
    char ok = witness ? 1 : 0;
    (void)!write(pids[1], &ok, 1);
    raise(SIGKILL);
  }
  close(pids[1]);
  char byte = 0;
  ASSERT_EQ(read(pids[0], &byte, 1), 1);
  EXPECT_EQ(byte, 1);
  waitpid(agent, nullptr, 0);
  EXPECT_EQ(read(pids[0], &byte, 1), 0);  // the witness held the other end: it is gone
  close(pids[0]);
}

}  // namespace
}  // namespace berth::agent
