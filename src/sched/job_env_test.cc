#include "sched/job_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

namespace berth::sched {
namespace {

using ::testing::Contains;
using ::testing::StartsWith;

TEST(JobEnv, IsTheUsersAndNothingElse) {
  setenv("SBATCH_PARTITION", "main", 1);
  std::vector<std::string> env = job_environment("root", "/bin");
  unsetenv("SBATCH_PARTITION");
  EXPECT_EQ(env.size(), 6u);
  EXPECT_THAT(env, Contains("PATH=/bin"));
  EXPECT_THAT(env, Contains("USER=root"));
  EXPECT_THAT(env, Contains("LOGNAME=root"));
  EXPECT_THAT(env, Contains("HOME=/root"));
  EXPECT_THAT(env, Contains(StartsWith("SHELL=/")));
}

TEST(JobEnv, OwnUserByDefault) {
  EXPECT_EQ(job_environment("", "/bin"), job_environment(own_user_name(), "/bin"));
  EXPECT_EQ(job_environment("no-such-user-of-berth", "/bin").size(), 2u);
}

}  // namespace
}  // namespace berth::sched
