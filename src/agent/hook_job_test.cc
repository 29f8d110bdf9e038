#include "agent/hook_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace berth::agent {
namespace {

using lifecycle::SchedulerWord;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

JobFacts read_job(const std::map<std::string, std::string>& env) {
  return read_job_environment([&](const char* name) -> const char* {
    auto it = env.find(name);
    return it == env.end() ? nullptr : it->second.c_str();
  });
}

TEST(JobFacts, FromTheEnvironment) {
  JobFacts slurm = read_job({{"SLURM_JOB_ID", "1500"},
                             {"SLURM_CLUSTER_NAME", "lab"},
                             {"SLURM_JOB_ACCOUNT", "gaia"},
                             {"SLURM_RESTART_COUNT", "2"},
                             {"SLURMD_NODENAME", "h100n1"},
                             {"SLURM_JOB_END_TIME", "1764536765"}});
  EXPECT_EQ(slurm.scheduler, JobFacts::Scheduler::slurm);
  EXPECT_EQ(slurm.id, 1500u);
  EXPECT_EQ(slurm.cluster, "lab");
  EXPECT_EQ(slurm.account, "gaia");
  EXPECT_EQ(slurm.restarts, 2);
  EXPECT_EQ(slurm.node, "h100n1");
  EXPECT_EQ(slurm.ends_at, from_ms(1764536765'000));
  JobFacts first = read_job({{"SLURM_JOB_ID", "7"}});
  EXPECT_EQ(first.restarts, 0);
  EXPECT_EQ(first.ends_at, std::nullopt);
  JobFacts local = read_job(
      {{"BERTH_LOCAL_JOB_ID", "3"}, {"BERTH_LOCAL_JOB_END", "1764536765"}, {"SLURM_JOB_ID", "7"}});
  EXPECT_EQ(local.scheduler, JobFacts::Scheduler::local);
  EXPECT_EQ(local.id, 3u);
  EXPECT_EQ(local.ends_at, from_ms(1764536765'000));
  EXPECT_EQ(read_job({}).scheduler, JobFacts::Scheduler::none);
  EXPECT_EQ(read_job({{"SLURM_JOB_ID", "x"}}).scheduler, JobFacts::Scheduler::none);
}

TEST(JobFacts, WhenTheScriptBegan) {
  EXPECT_EQ(read_job({{"BERTH_JOB_BEGAN", "1764536765.123456"}}).began_at, from_ms(1764536765'123));
  EXPECT_EQ(read_job({{"BERTH_JOB_BEGAN", "1764536765,5"}}).began_at, from_ms(1764536765'500));
  EXPECT_EQ(read_job({{"BERTH_JOB_BEGAN", "1764536765"}}).began_at, from_ms(1764536765'000));
  for (const char* none : {"", "soon", "-5.1", "99999999999999999999"})
    EXPECT_EQ(read_job({{"BERTH_JOB_BEGAN", none}}).began_at, std::nullopt) << none;
}

TEST(JobFacts, WhatSlurmSaysOfAJob) {
  auto word = [](const char* state, const char* reason, const char* preempt) {
    return read_scontrol_job(std::string("JobId=7 JobName=x JobState=") + state + " Reason=" +
                             reason + " EndTime=1764536765 PreemptTime=" + preempt + "\n");
  };
  EXPECT_EQ(word("RUNNING", "None", "None").word, SchedulerWord::none);
  EXPECT_EQ(word("RUNNING", "None", "None").ends_at, from_ms(1764536765'000));
  EXPECT_EQ(word("RUNNING", "None", "1764536000").word, SchedulerWord::preempted);
  EXPECT_EQ(word("COMPLETING", "TimeLimit", "None").word, SchedulerWord::time_limit);
  EXPECT_EQ(word("COMPLETING", "None", "None").word, SchedulerWord::cancelled);
  EXPECT_EQ(word("CANCELLED", "None", "None").word, SchedulerWord::cancelled);
  EXPECT_EQ(read_scontrol_job("").word, SchedulerWord::none);
  EXPECT_EQ(read_scontrol_job("slurm_load_jobs error").ends_at, std::nullopt);
}

// A21
TEST(JobFacts, CommandsGetACleanEnvironment) {
  const char* own[] = {"SLURM_MEM_PER_CPU=100",
                       "SLURM_CONF=/etc/slurm.conf",
                       "SBATCH_X=1",
                       "SRUN_CPUS_PER_TASK=3",
                       "PATH=/bin",
                       "BERTH_KEY=secret",
                       "LANG=de_DE",
                       "SALLOC_A=1",
                       "SLURM_TIME_FORMAT=relative",
                       nullptr};
  auto env = slurm_environment(const_cast<char**>(own));
  EXPECT_THAT(env, Contains("SLURM_CONF=/etc/slurm.conf"));
  EXPECT_THAT(env, Contains("PATH=/bin"));
  EXPECT_THAT(env, Contains("SLURM_TIME_FORMAT=%s"));
  EXPECT_EQ(env.size(), 5u);
  EXPECT_THAT(env, Not(Contains(HasSubstr("secret"))));
}

}  // namespace
}  // namespace berth::agent
