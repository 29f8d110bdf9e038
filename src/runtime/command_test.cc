#include "runtime/command.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace berth::runtime {
namespace {

Command shell(std::string text) {
  Command command;
  command.argv = {"/bin/bash", "-c", std::move(text)};
  command.env = {"PATH=/usr/bin:/bin"};
  command.deadline = seconds(20);
  return command;
}

CommandResult run(const Command& command) {
  Result<CommandResult> result = run_command(command);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  return result.ok() ? *result : CommandResult{};
}

TEST(Command, KeepsOutputErrorsAndStatusApart) {
  CommandResult result = run(shell("echo out; echo err >&2; exit 3"));
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.error_output, "err\n");
  EXPECT_EQ(result.exit_status, 3);
  EXPECT_FALSE(result.signal);
  EXPECT_FALSE(result.timed_out);
}

TEST(Command, ReportsTheSignal) {
  CommandResult result = run(shell("kill -SEGV $$"));
  EXPECT_EQ(result.signal, SIGSEGV);
  EXPECT_FALSE(result.exit_status);
  EXPECT_EQ(describe_outcome(result), "signal 11");
}

TEST(Command, GivesExactlyTheEnvironmentAndArguments) {
  Command command;
  command.argv = {"/usr/bin/env"};
  command.env = {"A=1,2 'x' \n y", "EMPTY="};
  EXPECT_EQ(run(command).output, "A=1,2 'x' \n y\nEMPTY=\n");
  command.argv = {"/usr/bin/printf", "[%s]", "", "-x", "$(id)", "a b"};
  EXPECT_EQ(run(command).output, "[][-x][$(id)][a b]");
}

TEST(Command, FeedsInputOfAnySize) {
  Command command = shell("wc -c");
  command.input = std::string(3 << 20, 'x');
  EXPECT_EQ(run(command).output, "3145728\n");
  command = shell("exit 0");  // never reads it
  command.input = std::string(3 << 20, 'x');
  EXPECT_EQ(run(command).exit_status, 0);
  EXPECT_EQ(run(shell("cat")).output, "");  // /dev/null
}

TEST(Command, KillsTheWholeGroupAtTheDeadline) {
  char folder[] = "/tmp/command-test-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  Command command = shell("sleep 1000 & echo $! > " + std::string(folder) + "/pid; wait");
  command.deadline = milliseconds(500);
  CommandResult result = run(command);
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.signal, SIGKILL);
  EXPECT_LT(result.took, seconds(10));
  std::ifstream in(std::string(folder) + "/pid");
  pid_t child = 0;
  ASSERT_TRUE(in >> child);
  // Killed with the group. It may be a zombie of init's for a moment: state Z counts as gone.
  std::string state = "?";
  for (int i = 0; i < 1000 && state != "Z" && state != ""; ++i) {
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    std::string line;
    state = std::getline(stat, line) ? line.substr(line.rfind(')') + 2, 1) : "";
    std::this_thread::yield();
  }
  EXPECT_TRUE(state == "Z" || state.empty()) << state;
  std::filesystem::remove_all(folder);
}

TEST(Command, DoesNotWaitForADaemonThatKeepsTheOutputOpen) {
  CommandResult result = run(shell("sleep 30 & echo $!; exit 4"));
  EXPECT_EQ(result.exit_status, 4);
  EXPECT_FALSE(result.timed_out);
  EXPECT_LT(result.took, seconds(10));
  kill(std::stoi(result.output), SIGKILL);
}

TEST(Command, CapsTheOutput) {
  Command command = shell("head -c 1000000 /dev/zero; echo end >&2");
  command.max_output = 1000;
  CommandResult result = run(command);
  EXPECT_EQ(result.output.size(), 1000u);
  EXPECT_TRUE(result.truncated);
  EXPECT_EQ(result.exit_status, 0);
  EXPECT_EQ(result.error_output, "end\n");
}

TEST(Command, MissingProgramsAndFoldersAreErrors) {
  Command command;
  command.argv = {"no-such-program-of-berth"};
  command.env = {"PATH=/usr/bin:/bin"};
  Result<CommandResult> result = run_command(command);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Code::unavailable);
  EXPECT_NE(result.error().message.find("no-such-program-of-berth"), std::string::npos);
  command.argv = {"/nonexistent/x"};
  EXPECT_EQ(run_command(command).error().code, Code::unavailable);
  command = shell("true");
  command.work_dir = "/nonexistent";
  result = run_command(command);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("working directory"), std::string::npos);
  command = shell(std::string("a\0b", 3));
  EXPECT_EQ(run_command(command).error().code, Code::invalid_argument);
  command.argv.clear();
  EXPECT_EQ(run_command(command).error().code, Code::invalid_argument);
}

TEST(Command, LooksProgramsUpInTheGivenPath) {
  Command command;
  command.argv = {"bash", "-c", "echo $0"};
  command.env = {"PATH=/nowhere::/bin"};
  EXPECT_EQ(run(command).output, "bash\n");
}

int open_descriptors() {
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder)) ++count;
  closedir(folder);
  return count;
}

TEST(Command, LeaksNothingToTheChildNorHere) {
  int leaky = open("/dev/null", O_RDONLY);  // without O_CLOEXEC, as a careless library would
  Command list;
  list.argv = {"/bin/ls", "/proc/self/fd"};  // 3 is the folder itself
  EXPECT_EQ(run(list).output, "0\n1\n2\n3\n");
  close(leaky);
  int before = open_descriptors();
  for (int i = 0; i < 20; ++i) run(shell("exit 1"));
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_LE(waitpid(-1, nullptr, WNOHANG), 0);  // no zombie
}

TEST(Command, StartsWithDefaultSignals) {
  auto old = signal(SIGPIPE, SIG_IGN);
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  CommandResult result = run(shell("grep -E '^Sig(Blk|Ign)' /proc/self/status"));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  signal(SIGPIPE, old);
  EXPECT_EQ(result.output, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST(Command, ManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::array<int, 8> good{};
  for (size_t t = 0; t < good.size(); ++t)
    threads.emplace_back([t, &good] {
      for (int i = 0; i < 15; ++i) {
        std::string text = "t" + std::to_string(t) + "i" + std::to_string(i);
        Command command = shell("cat; exit 7");
        command.input = text;
        Result<CommandResult> result = run_command(command);
        if (result.ok() && result->output == text && result->exited(7)) ++good[t];
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (int count : good) EXPECT_EQ(count, 15);
}

TEST(Command, RunsAsAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  Result<RunAs> nobody = run_as_user("nobody");
  ASSERT_TRUE(nobody.ok());
  Command command = shell("id -u; id -g; id -G");
  command.run_as = *nobody;
  CommandResult result = run(command);
  EXPECT_EQ(result.output, std::to_string(nobody->uid) + "\n" + std::to_string(nobody->gid) + "\n" +
                               std::to_string(nobody->gid) + "\n");
  EXPECT_EQ(geteuid(), 0u);
  EXPECT_EQ(run_as_user("no-such-user-of-berth").error().code, Code::not_found);
}

}  // namespace
}  // namespace berth::runtime
