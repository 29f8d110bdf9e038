#include "sched/slurm_doctor.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace berth::sched {
namespace {

using Level = Finding::Level;

const Finding* find(const std::vector<Finding>& findings, std::string_view what) {
  for (const Finding& finding : findings)
    if (finding.what == what) return &finding;
  return nullptr;
}

Level level(const std::vector<Finding>& findings, std::string_view what) {
  const Finding* finding = find(findings, what);
  EXPECT_NE(finding, nullptr) << what;
  return finding ? finding->level : Level::ok;
}

const char* kGood =
    "AccountingStorageType   = accounting_storage/slurmdbd\nKillWait                = 30 sec\n"
    "MessageTimeout          = 10 sec\nMinJobAge               = 300 sec\n"
    "PreemptType             = preempt/none\nPrivateData             = none\n"
    "ProctrackType           = proctrack/cgroup\nSLURM_VERSION           = 22.05.8\n";

TEST(SlurmDoctor, AGoodSiteHasNothingToMend) {
  for (const Finding& finding : judge_slurm_config(kGood, "", {}))
    EXPECT_EQ(finding.level, Level::ok) << finding.what << ": " << finding.detail;
}

TEST(SlurmDoctor, FindsWhatHurts) {
  const char* bad =
      "AccountingStorageType   = accounting_storage/none\nKillWait                = 5 sec\n"
      "MessageTimeout          = 100 sec\nMinJobAge               = 2 sec\n"
      "PreemptType             = preempt/partition_prio\nPrivateData             = jobs,usage\n"
      "ProctrackType           = proctrack/linuxproc\nSLURM_VERSION           = 19.05.1\n";
  const char* partitions =
      "PartitionName=cpu AllowGroups=ALL GraceTime=0 PreemptMode=OFF State=UP\n"
      "PartitionName=preempt AllowGroups=ALL GraceTime=0 PreemptMode=REQUEUE State=UP\n"
      "PartitionName=kind AllowGroups=ALL GraceTime=60 PreemptMode=REQUEUE State=UP\n";
  auto findings = judge_slurm_config(bad, partitions, {});
  EXPECT_EQ(level(findings, "cancelled jobs get time to drain"), Level::warning);
  EXPECT_EQ(level(findings, "Slurm's version is a verified one"), Level::warning);
  EXPECT_EQ(level(findings, "commands give up before they are killed"), Level::warning);
  EXPECT_EQ(level(findings, "jobs are accounted"), Level::warning);
  EXPECT_EQ(level(findings, "slurmctld remembers ended jobs"), Level::problem);
  EXPECT_EQ(level(findings, "Berth sees the jobs of those who register"), Level::warning);
  EXPECT_EQ(level(findings, "no process outlives its job"), Level::warning);
  const Finding* grace = find(findings, "preempted jobs get time to drain");
  ASSERT_NE(grace, nullptr);
  EXPECT_NE(grace->detail.find("partitions preempt:"), std::string::npos) << grace->detail;
}

TEST(SlurmDoctor, SaysWhatIsAway) {
  char folder[] = "/tmp/slurm-doctor-test-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  SlurmSettings settings;
  settings.bin_dir = folder;
  JobListing listing;
  listing.error = "squeue: Unable to contact slurm controller (connect failure) (status 1)";
  auto findings = diagnose_slurm(settings, listing);
  EXPECT_EQ(level(findings, "Slurm's commands are here"), Level::problem);

  auto tool = [&](const std::string& name, const std::string& text) {
    std::string path = settings.bin_dir + "/" + name;
    std::ofstream(path) << "#!/bin/bash\n" << text;
    chmod(path.c_str(), 0755);
  };
  tool("sbatch", "echo slurm-wlm 22.05.8");
  tool("scontrol", "echo 'Slurmctld(primary) at vm is DOWN'; exit 1");
  findings = diagnose_slurm(settings, listing);
  EXPECT_EQ(level(findings, "Slurm's commands are here"), Level::ok);
  EXPECT_EQ(level(findings, "slurmctld answers"), Level::problem);
  EXPECT_EQ(find(findings, "squeue lists Berth's jobs")->detail, listing.error);

  tool("scontrol",
       "case \"$*\" in ping) echo 'Slurmctld(primary) at vm is UP';; *partition) echo "
       "PartitionName=cpu GraceTime=0;; *) echo 'AccountingStorageType = "
       "accounting_storage/slurmdbd';; esac");
  tool("sacct", "echo 'sacct: error: Connection refused' >&2; exit 1");
  listing.quality = JobListing::Quality::complete;
  findings = diagnose_slurm(settings, listing);
  EXPECT_EQ(level(findings, "slurmctld answers"), Level::ok);
  EXPECT_EQ(level(findings, "partitions are visible"), Level::ok);
  EXPECT_EQ(level(findings, "slurmdbd answers"), Level::problem);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace berth::sched
