#include "sched/process_tree.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>

namespace berth::sched {
namespace {

TEST(ProcessTree, ReadsStatWhateverTheCommandIsCalled) {
  std::string rest = " S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 9000 10";
  auto entry = parse_process_stat("42 (a) R (b)" + rest);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->pid, 42);
  EXPECT_EQ(entry->state, 'S');
  EXPECT_EQ(entry->parent, 7);
  EXPECT_EQ(entry->session, 9);
  EXPECT_EQ(entry->start_ticks, 123456u);
  for (const char* bad : {"", "42", "42 (a)", "(", ")(", "x (a) S 1 2 3"})
    EXPECT_FALSE(parse_process_stat(bad)) << bad;
}

TEST(ProcessTree, FindsChildrenAndTheirVariable) {
  std::string mark = "BERTH_TREE_TEST=" + std::to_string(getpid());
  pid_t child = fork();
  if (child == 0) {
    std::string variable = mark;
    char* argv[] = {const_cast<char*>("sleep"), const_cast<char*>("100"), nullptr};
    char* env[] = {variable.data(), nullptr};
    execve("/bin/sleep", argv, env);
    _exit(1);
  }
  auto has = [child](const std::vector<pid_t>& pids) {
    return std::find(pids.begin(), pids.end(), child) != pids.end();
  };
  EXPECT_TRUE(has(descendants_of(getpid())));
  bool found = false;  // once it has called execve
  for (int i = 0; i < 2000 && !found; ++i) {
    found = has(processes_with_variable(mark));
    usleep(1000);
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(look_at_process(child)->parent, getpid());
  kill(child, SIGKILL);
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);  // a zombie now
  EXPECT_FALSE(has(descendants_of(getpid())));
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(look_at_process(child));
}

}  // namespace
}  // namespace berth::sched
