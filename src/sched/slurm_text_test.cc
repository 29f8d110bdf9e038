#include "sched/slurm_text.h"

#include <gtest/gtest.h>

namespace berth::sched {
namespace {

using Names = std::vector<std::string>;
using Kind = SlurmDuration::Kind;

TEST(SlurmText, States) {  // C01
  const std::pair<const char*, SlurmState> table[] = {
      {"CANCELLED by 65534", {JobState::cancelled, 65534}},
      {"CANCELLED by 0", {JobState::cancelled, 0}},
      {"CANCELLED by 7001", {JobState::cancelled, 7001}},
      {"CANCELLED+", {JobState::cancelled, std::nullopt}},
      {"CANCELLED", {JobState::cancelled, std::nullopt}},
      {"CA", {JobState::cancelled, std::nullopt}},
      {"CANCELLED by 99999999999", {JobState::cancelled, std::nullopt}},
      {"COMPLETED+", {JobState::completed, std::nullopt}},
      {"OUT_OF_ME+", {JobState::out_of_memory, std::nullopt}},
      {"NODE_FAIL+", {JobState::node_failed, std::nullopt}},
      {"REQUEUED+", {JobState::requeued, std::nullopt}},
      {"REQUEUE_F+", {JobState::pending, std::nullopt}},
      {"COMPLETI+", {JobState::completing, std::nullopt}},
      {"COMP+", {JobState::unknown, std::nullopt}},  // COMPLETED or COMPLETING
      {"RUNNING", {JobState::running, std::nullopt}},
      {" RUNNING \n", {JobState::running, std::nullopt}},
      {"TIMEOUT", {JobState::timed_out, std::nullopt}},
      {"BOOT_FAIL", {JobState::node_failed, std::nullopt}},
      {"SIGNALING", {JobState::running, std::nullopt}},
      {"SPECIAL_EXIT", {JobState::pending, std::nullopt}},
      {"CONFIGURING", {JobState::configuring, std::nullopt}},
      {"OOM", {JobState::out_of_memory, std::nullopt}},
      {"PR", {JobState::preempted, std::nullopt}},
      {"", {}},
      {"+", {}},
      {"R+", {JobState::running, std::nullopt}},
      {"running", {}},
      {"COMPLETE", {}},  // cut without a sign: not known
      {"DANCING", {}},
  };
  for (const auto& [text, expected] : table) EXPECT_EQ(parse_slurm_state(text), expected) << text;
}

TEST(SlurmText, UnknownTextIsNeverAnEnd) {
  EXPECT_FALSE(is_ended(parse_slurm_state("SOMETHING_NEW").state));
  EXPECT_FALSE(is_ended(parse_slurm_state("REQUEUED").state));
}

TEST(SlurmText, Durations) {  // C13
  const std::pair<const char*, SlurmDuration> table[] = {
      {"5:00", {Kind::known, seconds(300)}},
      {"5", {Kind::known, seconds(300)}},
      {"90:30", {Kind::known, seconds(5430)}},
      {"30:00", {Kind::known, seconds(1800)}},
      {"1:00:00", {Kind::known, seconds(3600)}},
      {"1-12", {Kind::known, seconds(129600)}},
      {"2-12", {Kind::known, seconds(216000)}},
      {"2-03:04", {Kind::known, seconds(183840)}},
      {"1-11:59:58", {Kind::known, seconds(129598)}},
      {"00:00.042", {Kind::known, seconds(0)}},
      {"UNLIMITED", {Kind::unlimited, Duration{}}},
      {"infinite", {Kind::unlimited, Duration{}}},
      {"INVALID", {}},
      {"NOT_SET", {}},
      {"Partition_Limit", {}},
      {"", {}},
      {"-1", {}},
      {"1:2:3:4", {}},
      {"99999999999999999999", {}},
      {"18446744073709551615-00", {}},
      {"1:", {}},
      {"x", {}},
  };
  for (const auto& [text, expected] : table)
    EXPECT_EQ(parse_slurm_duration(text), expected) << text;
}

TEST(SlurmText, DurationsForSbatchComeBackAsTheyWere) {
  EXPECT_EQ(format_slurm_duration(hours(26) + minutes(3) + seconds(4)), "1-02:03:04");
  EXPECT_EQ(format_slurm_duration(milliseconds(1)), "0-00:00:01");
  for (int64_t s : {1, 59, 60, 3600, 86399, 86400, 1000000})
    EXPECT_EQ(parse_slurm_duration(format_slurm_duration(seconds(s))).value, seconds(s));
}

TEST(SlurmText, Times) {  // C13
  EXPECT_EQ(parse_slurm_time("1796067913"), from_ms(1796067913000));
  EXPECT_EQ(parse_slurm_time("2026-11-30T18:04:26"), from_ms(1796061866000));
  for (const char* absent :
       {"Unknown", "None", "N/A", "NONE", "(null)", "", "0", "00", "1970-01-01T00:00:00",
        "4294967294", "18446744073709551614", "2026-13-30T18:04:26", "2026-11-31T18:04:26",
        "2026-11-30", "2026-11-30T18:04:26Z", "12:30", "-5", "tomorrow"})
    EXPECT_FALSE(parse_slurm_time(absent)) << absent;
}

TEST(SlurmText, PendingReasons) {  // C15, C27
  const std::pair<const char*, PendingClass> table[] = {
      {"Resources", PendingClass::waiting},
      {"Priority", PendingClass::waiting},
      {"BeginTime", PendingClass::waiting},
      {"Dependency", PendingClass::waiting},
      {"None", PendingClass::waiting},
      {"", PendingClass::waiting},
      {"JobArrayTaskLimit", PendingClass::waiting},
      {"QOSMaxGRESPerUser", PendingClass::waiting},
      {"QOSMaxJobsPerUserLimit", PendingClass::waiting},
      {"AssocMaxJobsLimit", PendingClass::waiting},
      {"AssocGrpGRES", PendingClass::waiting},
      {"QOSGrpJobsLimit", PendingClass::waiting},
      {"ReqNodeNotAvail, May be reserved for other job", PendingClass::waiting},
      {"ReqNodeNotAvail,_May_be_reserved_for_other_job", PendingClass::waiting},
      {"ReqNodeNotAvail, UnavailableNodes:d[001-032],f[001-024]", PendingClass::needs_admin},
      {"ReqNodeNotAvail, UnavailableNodes:n2", PendingClass::needs_admin},
      {"ReqNodeNotAvail,_UnavailableNodes:mign1", PendingClass::needs_admin},
      {"Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority "
       "partitions",
       PendingClass::needs_admin},
      {"PartitionDown", PendingClass::needs_admin},
      {"AssocGrpGRESMinutes", PendingClass::needs_admin},
      {"JobHeldUser", PendingClass::needs_admin},
      {"JobHeldAdmin", PendingClass::needs_admin},
      {"launch failed requeued held", PendingClass::needs_admin},
      {"launch_failed_requeued_held", PendingClass::needs_admin},
      {"job requeued in held state", PendingClass::needs_admin},
      {"PartitionConfig", PendingClass::never},
      {"PartitionTimeLimit", PendingClass::never},
      {"PartitionNodeLimit", PendingClass::never},
      {"DependencyNeverSatisfied", PendingClass::never},
      {"BadConstraints", PendingClass::never},
      {"QOSMaxWallDurationPerJobLimit", PendingClass::never},
      {"SomethingNew", PendingClass::waiting},
  };
  for (const auto& [text, expected] : table) EXPECT_EQ(classify_pending(text), expected) << text;
}

TEST(SlurmText, ExitCodes) {
  EXPECT_EQ(parse_exit_pair("143:0"), (ExitCode{143, std::nullopt}));
  EXPECT_EQ(parse_exit_pair("0:11"), (ExitCode{std::nullopt, 11}));
  EXPECT_EQ(parse_exit_pair("0:53"), (ExitCode{std::nullopt, 53}));
  EXPECT_EQ(parse_exit_pair("0:0"), (ExitCode{0, std::nullopt}));
  EXPECT_EQ(parse_exit_pair("0:125"), (ExitCode{std::nullopt, 125}));
  for (const char* bad : {"", ":", "1", "a:b", "1:", "999:0", "-1:0"})
    EXPECT_EQ(parse_exit_pair(bad), ExitCode{}) << bad;
  EXPECT_EQ(parse_squeue_exit("36608"), (ExitCode{143, std::nullopt}));
  EXPECT_EQ(parse_squeue_exit("768"), (ExitCode{3, std::nullopt}));
  EXPECT_EQ(parse_squeue_exit("11"), (ExitCode{std::nullopt, 11}));
  EXPECT_EQ(parse_squeue_exit("4021"), (ExitCode{std::nullopt, 53}));  // output file, A17
  EXPECT_EQ(parse_squeue_exit("143:0"), (ExitCode{143, std::nullopt}));
  EXPECT_EQ(parse_squeue_exit("0"), (ExitCode{0, std::nullopt}));
  EXPECT_EQ(parse_squeue_exit("4294967294"), ExitCode{});
  // sacct: 128 reads 0:0.
  EXPECT_EQ(correct_sacct_exit({0, std::nullopt}, JobState::failed), ExitCode{});
  EXPECT_EQ(correct_sacct_exit({0, std::nullopt}, JobState::completed),
            (ExitCode{0, std::nullopt}));
  EXPECT_EQ(correct_sacct_exit({15, std::nullopt}, JobState::failed), (ExitCode{15, std::nullopt}));
}

TEST(SlurmText, Nodelists) {
  EXPECT_EQ(expand_nodelist("cpun1"), Names({"cpun1"}));
  EXPECT_EQ(expand_nodelist("n[1-3,5]"), Names({"n1", "n2", "n3", "n5"}));
  EXPECT_EQ(expand_nodelist("d[009-011],f7"), Names({"d009", "d010", "d011", "f7"}));
  EXPECT_EQ(expand_nodelist("r[1-2]n[01-02]-ib"),
            Names({"r1n01-ib", "r1n02-ib", "r2n01-ib", "r2n02-ib"}));
  EXPECT_EQ(expand_nodelist("gpu-01,gpu-02"), Names({"gpu-01", "gpu-02"}));
  for (const char* none : {"", "(null)", "None assigned", "N/A", "  "})
    EXPECT_EQ(expand_nodelist(none), Names()) << none;
  for (const char* bad : {"n[1-", "n[3-1]", "n[a]", "n]1", "n[1-999999999]", ",", "a,,b", "n[]",
                          "a b", "n[1-65535][1-65535]", "n[1][1][1][1][1][1]"})
    EXPECT_EQ(expand_nodelist(bad), std::nullopt) << bad;
  EXPECT_EQ(expand_nodelist(std::string(300, 'x')), std::nullopt);
  EXPECT_EQ(expand_nodelist("n[1-65536]")->size(), 65536u);
}

TEST(SlurmText, NodeAddresses) {
  const char* output =
      "NodeName=cpun1 Arch=x86_64 CoresPerSocket=1  CPUAlloc=1 CPUEfctv=64 CPUTot=64 CPULoad=0.43 "
      "AvailableFeatures=cpu ActiveFeatures=cpu Gres=(null) NodeAddr=127.0.0.1 "
      "NodeHostName=localhost Port=28025 Version=22.05.8 OS=Linux 6.18.44 #1 SMP  "
      "Reason=NodeAddr=9\n"
      "NodeName=h100n1 NodeAddr=10.0.0.7 NodeHostName=h100n1\n";
  auto nodes = parse_node_addresses(output);
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0], (std::pair<std::string, std::string>("cpun1", "127.0.0.1")));
  EXPECT_EQ(nodes[1].second, "10.0.0.7");
  EXPECT_TRUE(parse_node_addresses("Node x not found\n").empty());
}

TEST(SlurmText, ConfigValues) {
  const char* output =
      "Configuration data as of 1796067913\nKillWait                = 5 sec\n"
      "SLURM_VERSION           = 22.05.8\n";
  EXPECT_EQ(config_value(output, "KillWait"), "5 sec");
  EXPECT_EQ(config_value(output, "SLURM_VERSION"), "22.05.8");
  EXPECT_EQ(config_value(output, "Kill"), std::nullopt);
}

}  // namespace
}  // namespace berth::sched
