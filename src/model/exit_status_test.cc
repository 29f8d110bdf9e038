#include "model/exit_status.h"

#include <gtest/gtest.h>

namespace berth {
namespace {

TEST(ExitStatus, InWords) {
  EXPECT_EQ(describe_exit(0, std::nullopt), "exit status 0");
  EXPECT_EQ(describe_exit(3, std::nullopt), "exit status 3");
  EXPECT_EQ(describe_exit(127, std::nullopt), "exit status 127 (command not found?)");
  EXPECT_EQ(describe_exit(std::nullopt, 11), "killed by signal 11 (SIGSEGV)");
  EXPECT_EQ(describe_exit(std::nullopt, 64), "killed by signal 64");
  EXPECT_EQ(describe_exit(std::nullopt, std::nullopt), "exit status unknown");
}

TEST(ExitStatus, AShellsWordForASignal) {
  EXPECT_EQ(describe_exit(132, std::nullopt), "killed by signal 4 (SIGILL)");
  EXPECT_EQ(describe_exit(137, std::nullopt),
            "killed by signal 9 (SIGKILL, often the kernel when memory is short)");
  EXPECT_EQ(describe_exit(128, std::nullopt), "exit status 128");
  EXPECT_EQ(describe_exit(255, std::nullopt), "exit status 255");
}

}  // namespace
}  // namespace berth
