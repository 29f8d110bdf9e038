#include "agent/process_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace berth::agent {
namespace {

using ::testing::Contains;
using ::testing::Not;

TEST(ProcessTree, ParsesNamesThatTryToDeceive) {
  ProcessEntry p = parse_stat("42 (a) R 1 (b) S 7 42 9 0 -1 4194560");
  EXPECT_EQ(p.pid, 42);
  EXPECT_EQ(p.state, 'S');
  EXPECT_EQ(p.parent, 7);
  EXPECT_EQ(p.session, 9);
  EXPECT_EQ(parse_stat("").pid, 0);
  EXPECT_EQ(parse_stat("12 (x").pid, 0);
  EXPECT_EQ(parse_stat("x (x) S 1 1 1").pid, 0);
  EXPECT_EQ(parse_stat("5 (x)").pid, 0);
}

// Children in this session are the agent's own commands; those in another one are the engine's.
TEST(ProcessTree, TellsTheEnginesProcessesFromTheAgents) {
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  auto child = [&](bool new_session) {
    pid_t pid = fork();
    if (pid == 0) {
      if (new_session) setsid();
      (void)!write(go[1], "x", 1);
      for (;;) pause();
    }
    char byte;
    (void)!read(go[0], &byte, 1);
    return pid;
  };
  pid_t own = child(false), engine = child(true), helper = child(true);
  EXPECT_THAT(living_tree({helper}), Contains(engine));
  EXPECT_THAT(living_tree({helper}), Not(Contains(own)));
  EXPECT_THAT(living_tree({helper}), Not(Contains(helper)));
  kill_tree({helper});
  int status = 0;
  EXPECT_EQ(waitpid(engine, &status, 0), engine);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_EQ(kill(own, 0), 0);
  EXPECT_EQ(kill(helper, 0), 0);
  for (pid_t pid : {own, helper}) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  close(go[0]);
  close(go[1]);
}

TEST(ProcessTree, ReapsOrphansButNotTheMainProcess) {
  set_subreaper(Subreaper::yes);
  int out[2];
  ASSERT_EQ(pipe(out), 0);
  pid_t main = fork();
  if (main == 0) {
    setsid();
    pid_t orphan = fork();
    if (orphan == 0) _exit(0);
    (void)!write(out[1], &orphan, sizeof orphan);
    _exit(0);  // the orphan becomes the subreaper's
  }
  pid_t orphan = 0;
  ASSERT_EQ(read(out[0], &orphan, sizeof orphan), static_cast<ssize_t>(sizeof orphan));
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, main, &info, WEXITED | WNOWAIT), 0);
  ASSERT_EQ(waitid(P_PID, orphan, &info, WEXITED | WNOWAIT), 0) << "not handed to this process";
  reap_orphans(main, {});
  EXPECT_NE(kill(orphan, 0), 0);
  EXPECT_EQ(waitpid(main, nullptr, 0), main);
  set_subreaper(Subreaper::no);
  close(out[0]);
  close(out[1]);
}

}  // namespace
}  // namespace berth::agent
