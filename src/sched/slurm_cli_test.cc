#include "sched/slurm_cli.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace berth::sched {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Quality = JobListing::Quality;

// Programs named as Slurm's write down how they were called and print canned text. In it {N} stands
// for the call's nonce and ^ for the separator.
class SlurmCliTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/slurm-cli-test-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    root_ = folder;
    settings_.bin_dir = root_ + "/bin";
    std::filesystem::create_directory(settings_.bin_dir);
    reopen();
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void reopen() { slurm_ = std::move(*SlurmScheduler::open(settings_)); }

  void tool(const std::string& name, const std::string& text, const std::string& error = "",
            int status = 0) {
    std::ofstream(root_ + "/" + name + ".out") << text;
    std::ofstream(root_ + "/" + name + ".err") << error;
    program(name,
            "sep=$'\\x1f'\nfor a in \"$@\"; do case $a in\n"
            "  --Format=*) n=${a##*>} ;;\n"
            "  --delimiter=*) n=${a#*=}; n=${n#$sep}; n=${n%$sep} ;;\nesac; done\n"
            "t=$(cat " +
                root_ + "/" + name +
                ".out; echo .); t=${t%.}\n"
                "t=${t//'{N}'/$n}; printf %s \"${t//^/$sep}\"\ncat " +
                root_ + "/" + name + ".err >&2\nexit " + std::to_string(status) + "\n");
  }
  void program(const std::string& name, const std::string& text) {
    std::string path = settings_.bin_dir + "/" + name;
    std::ofstream(path) << "#!/bin/bash\nprintf '%s\\n' \"${0##*/} $*\" >>" << root_ << "/calls\n"
                        << text;
    chmod(path.c_str(), 0755);
  }
  std::vector<std::string> calls(const std::string& name) {
    std::ifstream in(root_ + "/calls");
    std::vector<std::string> all;
    for (std::string line; std::getline(in, line);)
      if (line.starts_with(name + " ")) all.push_back(line);
    return all;
  }

  JobRequest request() {
    JobRequest r;
    r.key = "berth-00000000000000aa";
    r.script = "#!/bin/bash\necho hello\n";
    r.log_path = root_ + "/log/%j.out";
    r.work_dir = root_;
    return r;
  }

  std::string root_;
  SlurmSettings settings_;
  std::unique_ptr<SlurmScheduler> slurm_;
};

const std::string kQueueHeader =
    "JOBID^UID^STATE^RESTART_COUNT^EXIT_CODE^SUBMIT_TIME^START_TIME^END_TIME^TIME_LIMIT^USER^"
    "NODELIST^REASON^ACCOUNT^NAME>{N}\n";

std::string job_row(int id, const std::string& state, const std::string& exit = "0",
                    const std::string& name = "berth-00000000000000aa") {
  return std::to_string(id) + "^0^" + state + "^0^" + exit +
         "^1796067946^1796067947^1796068547^10:00^root^cpun1^None^gaia^" + name + ">{N}\n";
}

std::string sacct_row(std::string text) {
  std::string out;
  for (char c : text) out += c == '|' ? std::string("^{N}^") : std::string(1, c);
  return out + "^{N}^\n";
}

TEST_F(SlurmCliTest, SubmitPutsEverythingOnTheCommandLine) {
  program("sbatch", "cat >" + root_ + "/stdin; env >" + root_ + "/env; echo '30;lab'\n");
  JobRequest r = request();
  r.resources.partition = "h100";
  r.resources.account = "gaia";
  r.resources.qos = "high";
  r.resources.gpus = 2;
  r.resources.gpu_type = "1g.12gb";
  r.resources.cpus_per_task = 16;
  r.resources.mem_mib = 98304;
  r.resources.time_limit = hours(8);
  r.resources.exclude_nodes = {"n1", "n2"};
  r.signal_lead = seconds(120);
  auto ref = slurm_->submit(r);
  ASSERT_TRUE(ref.ok()) << ref.error().message;
  EXPECT_EQ(ref->id, 30u);
  EXPECT_EQ(ref->cluster, "lab");  // C09
  std::string call = calls("sbatch").at(0) + " ";
  for (const char* option :
       {" --parsable ", " --export=ALL ", " --no-requeue ", " --open-mode=append ",
        " --job-name=berth-00000000000000aa ", " --partition=h100 ", " --account=gaia ",
        " --qos=high ", " --gres=gpu:1g.12gb:2 ", " --cpus-per-task=16 ", " --mem=98304M ",
        " --time=0-08:00:00 ", " --exclude=n1,n2 ", " --signal=USR1@120 ", " --nodes=1 "})
    EXPECT_THAT(call, HasSubstr(option));
  EXPECT_THAT(call, HasSubstr("--output=" + root_ + "/log/%%j.out"));
  EXPECT_TRUE(std::filesystem::exists(root_ + "/log/%j.out"));  // the folder was made, A17
  std::stringstream script;
  script << std::ifstream(root_ + "/stdin").rdbuf();
  EXPECT_EQ(script.str(), r.script);
}

TEST_F(SlurmCliTest, LogsThatCannotBeWrittenAreRefusedBeforeSbatch) {  // A17
  tool("sbatch", "31\n");
  JobRequest r = request();
  r.log_path = "/proc/nodir/x.out";
  auto refused = slurm_->submit(r);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
  EXPECT_THAT(refused.error().message, HasSubstr("/proc/nodir/x.out"));
  r = request();
  r.work_dir = root_ + "/missing";  // Slurm would run it in /tmp
  EXPECT_THAT(slurm_->submit(r).error().message, HasSubstr(r.work_dir));
  EXPECT_TRUE(calls("sbatch").empty());
}

TEST_F(SlurmCliTest, HostileValuesAreRefused) {
  auto refused = [this](auto change) {
    JobRequest r = request();
    change(r);
    auto args = sbatch_arguments(r, SlurmSettings::Requeue::no);
    return !args.ok() && args.error().code == Code::invalid_argument;
  };
  EXPECT_FALSE(refused([](JobRequest&) {}));
  EXPECT_TRUE(refused([](JobRequest& r) { r.key = "Big simulation"; }));  // C19
  EXPECT_TRUE(refused([](JobRequest& r) { r.key = "a\n#SBATCH --uid=0"; }));
  EXPECT_TRUE(refused([](JobRequest& r) { r.key = ""; }));
  EXPECT_TRUE(refused([](JobRequest& r) { r.resources.partition = "a\nb"; }));
  EXPECT_TRUE(refused([](JobRequest& r) { r.log_path = "x"; }));
  EXPECT_TRUE(refused([](JobRequest& r) { r.log_path = "/a\\b"; }));
  EXPECT_TRUE(refused([](JobRequest& r) { r.work_dir = ""; }));
  EXPECT_TRUE(refused([](JobRequest& r) { r.script = "echo"; }));
  EXPECT_TRUE(refused([](JobRequest& r) { r.resources.gpus = -1; }));
  EXPECT_TRUE(refused([](JobRequest& r) { r.resources.nodes = 0; }));
  // A value cannot become an option of its own.
  JobRequest r = request();
  r.resources.account = "--uid=0";
  EXPECT_THAT(*sbatch_arguments(r, SlurmSettings::Requeue::yes), Contains("--account=--uid=0"));
  EXPECT_THAT(*sbatch_arguments(r, SlurmSettings::Requeue::yes), Contains("--requeue"));
}

TEST_F(SlurmCliTest, RunAsNeedsImpersonation) {
  tool("sbatch", "31\n");
  JobRequest r = request();
  r.run_as = geteuid() == 0 ? "nobody" : "root";
  EXPECT_EQ(slurm_->submit(r).error().code, Code::invalid_argument);
  r.run_as = "no-such-user-of-berth";
  EXPECT_EQ(slurm_->submit(r).error().code, Code::invalid_argument);
  EXPECT_TRUE(calls("sbatch").empty());
  settings_.impersonate = SlurmSettings::Impersonate::yes;
  EXPECT_EQ(SlurmScheduler::open(settings_).ok(), geteuid() == 0);
}

TEST_F(SlurmCliTest, SubmitWithoutAClearAnswerIsUnknown) {
  tool("sbatch", "",
       "sbatch: error: Batch job submission failed: Socket timed out on send/recv "
       "operation\n",
       1);
  EXPECT_EQ(slurm_->submit(request()).error().code, Code::unknown_outcome);
  program("sbatch", "sleep 100\n");
  settings_.submit_deadline = milliseconds(300);
  reopen();
  EXPECT_EQ(slurm_->submit(request()).error().code, Code::unknown_outcome);
  program("sbatch", "kill -KILL $$\n");
  EXPECT_EQ(slurm_->submit(request()).error().code, Code::unknown_outcome);
  tool("sbatch", "thanks\n");
  EXPECT_EQ(slurm_->submit(request()).error().code, Code::unknown_outcome);
  std::filesystem::remove(settings_.bin_dir + "/sbatch");
  EXPECT_EQ(slurm_->submit(request()).error().code, Code::unavailable);
}

TEST_F(SlurmCliTest, SubmitLimitsAreForNow) {  // C17
  tool("sbatch", "",
       "sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission failed: Job "
       "violates accounting/QOS policy (job submit limit, user's size and/or time limits)\n",
       1);
  auto refused = slurm_->submit(request());
  EXPECT_EQ(refused.error().code, Code::exhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("AssocMaxSubmitJobLimit"));
}

TEST_F(SlurmCliTest, ListIsOneSqueueForOwnJobs) {  // C25
  tool("squeue", kQueueHeader + job_row(6, "RUNNING") + job_row(7, "RUNNING", "0", "interactive") +
                     job_row(8, "PENDING", "0", "berth-00000000000000bb"));
  JobListing listing = slurm_->list();
  EXPECT_EQ(listing.quality, Quality::complete) << listing.error;
  ASSERT_EQ(listing.jobs.size(), 2u);
  EXPECT_EQ(listing.jobs[1].key, "berth-00000000000000bb");
  ASSERT_EQ(calls("squeue").size(), 1u);
  EXPECT_THAT(calls("squeue")[0], HasSubstr(" --user=" + std::to_string(geteuid()) + " "));
  EXPECT_TRUE(calls("scontrol").empty());
  settings_.users = {"alice", "svc-berth"};
  settings_.cluster = "lab";
  reopen();
  EXPECT_EQ(slurm_->list().jobs.at(0).ref.cluster, "lab");
  EXPECT_THAT(calls("squeue")[1], StartsWith("squeue --clusters=lab --user=alice,svc-berth "));
}

TEST_F(SlurmCliTest, EachFailureOfSqueueIsSeen) {  // C03
  tool("squeue", "", "slurm_load_jobs error: Unable to contact slurm controller\n", 1);
  EXPECT_EQ(slurm_->list().quality, Quality::failed);
  tool("squeue", "", "slurm_load_jobs error: Socket timed out on send/recv operation\n");
  EXPECT_EQ(slurm_->list().quality, Quality::failed);
  EXPECT_THAT(slurm_->list().error, HasSubstr("Socket timed out"));
  tool("squeue", "CLUSTER: name\n");
  EXPECT_EQ(slurm_->list().quality, Quality::failed);
  program("squeue", "sleep 100\n");
  settings_.query_deadline = milliseconds(300);
  reopen();
  EXPECT_EQ(slurm_->list().quality, Quality::failed);
  settings_.query_deadline = seconds(20);
  reopen();
  tool("squeue", kQueueHeader + job_row(6, "RUNNING") + "8^0^PEND");
  EXPECT_EQ(slurm_->list().quality, Quality::partial);
  EXPECT_EQ(slurm_->list().jobs.size(), 1u);
  program("squeue", "kill -KILL $$\n");
  EXPECT_EQ(slurm_->list().quality, Quality::failed);
  std::filesystem::remove(settings_.bin_dir + "/squeue");
  EXPECT_EQ(slurm_->list().quality, Quality::failed);
}

TEST_F(SlurmCliTest, EndsComeFromEitherSource) {  // C29
  JobRef ref{3, "", {}};
  tool("squeue", kQueueHeader + job_row(3, "FAILED", "36608"));
  tool("sacct", sacct_row("3|1796067946|1796067947|1796067950|FAILED|15:0|cpun1|None|"
                          "berth-00000000000000aa"));
  auto ends = slurm_->ended({ref});
  ASSERT_TRUE(ends.ok()) << ends.error().message;
  ASSERT_EQ(ends->size(), 1u);
  EXPECT_EQ(ends->at(0).exit_code, 143);
  EXPECT_THAT(calls("sacct").at(0), HasSubstr("--jobs=3"));
  // slurmdbd down
  tool("sacct", "", "sacct: error: Sending PersistInit msg: Connection refused\n", 1);
  EXPECT_EQ(slurm_->ended({ref})->at(0).exit_code, 143);
  // forgotten by slurmctld
  tool("squeue", "", "slurm_load_jobs error: Invalid job id specified\n", 1);
  tool("sacct", sacct_row("3|1796067946|1796067947|1796067950|FAILED|15:0|cpun1|None|"
                          "berth-00000000000000aa"));
  EXPECT_EQ(slurm_->ended({ref})->at(0).exit_code, 15);
  tool("sacct", "");
  EXPECT_TRUE(slurm_->ended({ref})->empty());
  // both away
  tool("squeue", "", "slurm_load_jobs error: Unable to contact slurm controller\n", 1);
  tool("sacct", "", "sacct: error: Connection refused\n", 1);
  EXPECT_EQ(slurm_->ended({ref}).error().code, Code::unavailable);
}

TEST_F(SlurmCliTest, AccountingLagsBehindTheQueue) {  // C05, C07
  JobRef ref{6, "", {}};
  std::string preempted =
      sacct_row("6|1796067946|1796067947|1796067950|PREEMPTED|0:0|n1|None|berth-00000000000000aa");
  tool("squeue", kQueueHeader + job_row(6, "PENDING"));  // requeued
  tool("sacct", preempted);
  EXPECT_TRUE(slurm_->ended({ref})->empty());
  // slurmctld is away: the next run may not be recorded yet.
  tool("squeue", "", "slurm_load_jobs error: Unable to contact slurm controller\n", 1);
  EXPECT_TRUE(slurm_->ended({ref})->empty());
  tool("squeue", kQueueHeader);
  EXPECT_EQ(slurm_->ended({ref})->at(0).state, JobState::preempted);
  tool("sacct", sacct_row("6|1796067946|1796067947|Unknown|COMPLETED|0:0|n1|None|"
                          "berth-00000000000000aa"));
  auto ends = slurm_->ended({ref});
  EXPECT_EQ(ends->at(0).state, JobState::completed);
  EXPECT_FALSE(ends->at(0).ended_at);
}

TEST_F(SlurmCliTest, ManyIdsAreChunked) {
  tool("squeue", kQueueHeader);
  tool("sacct", "");
  std::vector<JobRef> refs;
  for (uint64_t id = 1; id <= 450; ++id) refs.push_back({id, "", {}});
  EXPECT_TRUE(slurm_->ended(refs).ok());
  EXPECT_EQ(calls("squeue").size(), 3u);
  EXPECT_EQ(calls("sacct").size(), 3u);
  EXPECT_TRUE(slurm_->ended({})->empty());
  EXPECT_EQ(calls("squeue").size(), 3u);
}

TEST_F(SlurmCliTest, CancelNamesTheJobAndKeepsSlurmsWords) {  // C33
  tool("scancel", "");
  EXPECT_TRUE(slurm_->cancel({9, "lab", {}}, CancelMode::polite).ok());
  EXPECT_EQ(calls("scancel").at(0), "scancel --clusters=lab 9");
  EXPECT_TRUE(slurm_->cancel({9, "", {}}, CancelMode::kill).ok());
  EXPECT_EQ(calls("scancel").at(1), "scancel --signal=KILL --full 9");
  EXPECT_EQ(slurm_->cancel({}, CancelMode::polite).error().code, Code::invalid_argument);
  tool("scancel", "", "scancel: error: Kill job error on job id 9: Invalid job id specified\n", 1);
  EXPECT_TRUE(slurm_->cancel({9, "", {}}, CancelMode::polite).ok());
  tool("scancel", "", "scancel: error: Kill job error on job id 9: Access/permission denied\n",
       210);
  EXPECT_EQ(slurm_->cancel({9, "", {}}, CancelMode::polite).error().code, Code::permission_denied);
  tool("scancel", "", "scancel: error: Unable to contact slurm controller (connect failure)\n", 8);
  Status away = slurm_->cancel({9, "", {}}, CancelMode::polite);
  EXPECT_EQ(away.error().code, Code::unavailable);
  EXPECT_THAT(away.error().message, HasSubstr("status 8"));
  program("scancel", "sleep 100\n");
  settings_.query_deadline = milliseconds(300);
  reopen();
  EXPECT_EQ(slurm_->cancel({9, "", {}}, CancelMode::polite).error().code, Code::unknown_outcome);
}

TEST_F(SlurmCliTest, IdentityComesWithNodeAddresses) {
  tool("squeue", kQueueHeader + job_row(6, "RUNNING", "0", "x UserId=root(0)"));
  tool("scontrol", "NodeName=cpun1 Arch=x86_64 NodeAddr=10.0.0.7 NodeHostName=cpun1\n");
  auto identity = slurm_->identify(6);
  ASSERT_TRUE(identity.ok() && *identity);
  EXPECT_EQ((*identity)->uid, 0u);
  EXPECT_EQ((*identity)->user, "root");
  EXPECT_EQ((*identity)->account, "gaia");
  EXPECT_EQ((*identity)->addresses, std::vector<std::string>({"10.0.0.7"}));
  EXPECT_EQ((*identity)->ends_at, from_ms(1796068547000));
  EXPECT_EQ(calls("scontrol").at(0), "scontrol --oneliner show node cpun1");
  EXPECT_FALSE(*slurm_->identify(7));  // another job's row
  tool("squeue", "", "slurm_load_jobs error: Invalid job id specified\n", 1);
  EXPECT_FALSE(*slurm_->identify(6));
  tool("squeue", "", "slurm_load_jobs error: Unable to contact slurm controller\n", 1);
  EXPECT_EQ(slurm_->identify(6).error().code, Code::unavailable);
  tool("squeue", kQueueHeader + job_row(6, "RUNNING"));
  tool("scontrol", "", "scontrol: error: x\n", 1);
  EXPECT_EQ(slurm_->identify(6).error().code, Code::unavailable);
}

}  // namespace
}  // namespace berth::sched
