#include "sched/slurm_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace berth::sched {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class SlurmCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/slurm-command-test-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    settings_.bin_dir = folder;
    settings_.path = "/usr/bin:/bin";
    for (const char* tool : {"squeue", "sbatch"}) {
      std::string path = settings_.bin_dir + "/" + tool;
      std::ofstream(path) << "#!/bin/bash\necho \"args: $*\"; env; exit 4\n";
      chmod(path.c_str(), 0755);
    }
  }
  void TearDown() override { std::filesystem::remove_all(settings_.bin_dir); }

  std::string run(const std::string& tool) {
    SlurmCommand command;
    command.tool = tool;
    command.args = {"--all"};
    command.env = {"HOME=/home/x"};
    auto result = run_slurm(settings_, command);
    EXPECT_TRUE(result.ok());
    EXPECT_EQ(result->exit_status, 4);
    return result->output;
  }
  SlurmSettings settings_;
};

TEST_F(SlurmCommandTest, NothingOfTheCallersEnvironmentGetsIn) {  // A21, C23
  const char* names[] = {"SBATCH_PARTITION", "SBATCH_TIMELIMIT",    "SBATCH_MEM_PER_NODE",
                         "SBATCH_QOS",       "SBATCH_ACCOUNT",      "SBATCH_EXPORT",
                         "SLURM_JOB_ID",     "SLURM_MEM_PER_CPU",   "SRUN_CPUS_PER_TASK",
                         "SALLOC_ACCOUNT",   "SQUEUE_FORMAT",       "SQUEUE_USERS",
                         "SACCT_FORMAT",     "SCANCEL_INTERACTIVE", "SINFO_FORMAT",
                         "SLURM_CLUSTERS",   "LD_LIBRARY_PATH"};
  for (const char* name : names) setenv(name, "poison", 1);
  std::string seen = run("squeue") + run("sbatch");
  for (const char* name : names) unsetenv(name);
  EXPECT_THAT(seen, Not(HasSubstr("poison")));
  EXPECT_THAT(seen, HasSubstr("HOME=/home/x\n"));
}

TEST_F(SlurmCommandTest, TimesAndLanguageAreFixed) {
  std::string seen = run("squeue");
  for (const char* part : {"LC_ALL=C\n", "TZ=UTC0\n", "SLURM_TIME_FORMAT=%s\n",
                           "PATH=/usr/bin:/bin\n", "args: --all\n"})
    EXPECT_THAT(seen, HasSubstr(part));
  EXPECT_THAT(seen, Not(HasSubstr("SLURM_CONF")));
  seen = run("sbatch");  // the job would inherit them
  for (const char* part : {"LC_ALL", "TZ=", "SLURM_TIME_FORMAT"})
    EXPECT_THAT(seen, Not(HasSubstr(part)));
}

TEST_F(SlurmCommandTest, ConfigurationAndClusterComeFromTheSettings) {  // C09
  settings_.slurm_conf = "/etc/berth/slurm.conf";
  settings_.cluster = "lab";
  std::string seen = run("squeue");
  EXPECT_THAT(seen, HasSubstr("SLURM_CONF=/etc/berth/slurm.conf\n"));
  EXPECT_THAT(seen, HasSubstr("args: --clusters=lab --all\n"));
}

TEST_F(SlurmCommandTest, AMissingToolIsAnError) {
  SlurmCommand command;
  command.tool = "nosuch";
  EXPECT_EQ(run_slurm(settings_, command).error().code, Code::unavailable);
}

}  // namespace
}  // namespace berth::sched
