#include "contract/sched_contract.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "base/id.h"
#include "sched/job_script.h"

namespace berth::contract {

std::vector<std::pair<std::string, MakeSchedSite>>& sched_sites() {
  static std::vector<std::pair<std::string, MakeSchedSite>> sites;
  return sites;
}

SchedRegistration::SchedRegistration(std::string name, MakeSchedSite make) {
  sched_sites().emplace_back(std::move(name), std::move(make));
}

std::optional<uint64_t> SchedSite::run_foreign_job(const std::string&) { return std::nullopt; }

void SchedSite::give_behaviour(sched::JobRequest& request, const Behaviour& behaviour) {
  request.script = "#!/bin/bash\n";
  // `sleep` in the foreground would hold back the trap; short ones do not.
  constexpr const char* kForEver = "while :; do sleep 0.1; done\n";
  switch (behaviour.kind) {
    case Behaviour::Kind::exit:
      request.script += fmt::format("exit {}\n", behaviour.status);
      break;
    case Behaviour::Kind::raise:
      request.script += fmt::format("ulimit -c 0; kill -{} $$\n", behaviour.status);
      break;
    case Behaviour::Kind::run:
      request.script += std::string("trap 'echo got TERM; exit 0' TERM\necho up\n") + kForEver;
      break;
    case Behaviour::Kind::ignore_term:
      request.script += std::string("trap '' TERM\necho up\n") + kForEver;
      break;
    case Behaviour::Kind::script:
      request.script += behaviour.text;
      break;
  }
}

namespace {

using sched::CancelMode;
using sched::JobIdentity;
using sched::JobRequest;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Kind = Behaviour::Kind;

class SchedContract : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    for (const auto& [name, make] : sched_sites())
      if (name == GetParam()) site_ = make();
    if (!site_) GTEST_SKIP() << GetParam() << ": no such site here";
    prefix_ = "berth-" + random_hex(6);
  }

  sched::Scheduler& scheduler() { return site_->scheduler(); }

  bool wait_until(const std::function<bool()>& predicate, Duration limit = seconds(60)) {
    auto end = std::chrono::steady_clock::now() + limit;
    while (std::chrono::steady_clock::now() < end) {
      if (predicate()) return true;
      site_->step();
    }
    return false;
  }

  std::string key(int n) const { return fmt::format("{}{:04}", prefix_, n); }

  JobRequest request(int n, const Behaviour& behaviour) {
    JobRequest r;
    r.key = key(n);
    r.log_path = fmt::format("{}/{}.log", site_->directory(), r.key);
    r.work_dir = site_->directory();
    r.resources.account = site_->traits().account;
    r.resources.time_limit = hours(1);
    site_->give_behaviour(r, behaviour);
    return r;
  }

  JobRef submit(const JobRequest& r) {
    auto ref = scheduler().submit(r);
    EXPECT_TRUE(ref.ok()) << (ref.ok() ? "" : ref.error().message);
    if (!ref.ok()) return {};
    EXPECT_NE(ref->id, 0u);
    return *ref;
  }

  std::optional<JobObserved> find(const std::string& name) {
    JobListing listing = scheduler().list();
    EXPECT_EQ(listing.quality, JobListing::Quality::complete) << listing.error;
    std::optional<JobObserved> found;
    for (JobObserved& job : listing.jobs) {
      if (job.key != name) continue;
      EXPECT_FALSE(found) << "listed twice: " << name;
      found = job;
    }
    return found;
  }

  bool wait_state(const std::string& name, JobState state) {
    return wait_until([&] {
      auto job = find(name);
      return job && job->state == state;
    });
  }

  JobEnd wait_end(const JobRef& ref, Duration limit = seconds(60)) {
    std::optional<JobEnd> end;
    EXPECT_TRUE(wait_until(
        [&] {
          auto ends = scheduler().ended({ref});
          EXPECT_TRUE(ends.ok()) << (ends.ok() ? "" : ends.error().message);
          if (ends.ok() && !ends->empty()) end = ends->front();
          return end.has_value();
        },
        limit));
    return end.value_or(JobEnd{});
  }

  std::string log(const JobRequest& r) {
    std::ifstream in(r.log_path);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  // Without what srun says about the step, which may come between any two lines of it.
  std::string step_log(const JobRequest& r) {
    std::istringstream all(log(r));
    std::string text;
    for (std::string line; std::getline(all, line);) {
      if (!line.starts_with("srun: ")) text += line + "\n";
    }
    return text;
  }
  bool wait_log(const JobRequest& r, const std::string& text) {
    return wait_until([&] { return log(r).find(text) != std::string::npos; });
  }

  std::unique_ptr<SchedSite> site_;
  std::string prefix_;
};

TEST_P(SchedContract, ASubmittedJobIsFoundByItsKey) {
  Instant before = wall_now();
  JobRequest r = request(1, {Kind::run, 0, ""});
  JobRef ref = submit(r);
  auto seen = find(r.key);
  ASSERT_TRUE(seen);  // at once, whether it runs or waits
  EXPECT_EQ(seen->ref.id, ref.id);
  ASSERT_TRUE(wait_state(r.key, JobState::running));
  seen = find(r.key);
  ASSERT_TRUE(seen && seen->started_at && seen->ends_at && seen->ref.submit_time);
  EXPECT_EQ(seen->account, r.resources.account);
  EXPECT_FALSE(seen->user.empty());
  EXPECT_EQ(seen->nodes.size(), 1u);
  EXPECT_EQ(seen->time_limit, hours(1));
  EXPECT_EQ(*seen->ends_at - *seen->started_at, hours(1));
  EXPECT_EQ(seen->restarts, 0);
  // Whole seconds, by the scheduler's clock.
  EXPECT_GE(*seen->ref.submit_time, before - seconds(2));
  EXPECT_LE(*seen->ref.submit_time, *seen->started_at + seconds(2));
}

TEST_P(SchedContract, AKeyIsOneJob) {
  JobRequest r = request(1, {Kind::run, 0, ""});
  JobRef first = submit(r);
  if (!site_->traits().idempotent_submit) GTEST_SKIP() << "a second submit makes a second job";
  EXPECT_EQ(submit(r).id, first.id);
  EXPECT_TRUE(find(r.key));  // which fails if it is there twice
}

TEST_P(SchedContract, TheListIsCompleteAndLeavesOutTheEnded) {
  JobRef done = submit(request(0, {Kind::exit, 0, ""}));
  for (int i = 1; i <= 4; ++i) submit(request(i, {Kind::run, 0, ""}));
  wait_end(done);
  JobListing listing = scheduler().list();
  ASSERT_EQ(listing.quality, JobListing::Quality::complete) << listing.error;
  EXPECT_GT(listing.asked_at, Instant{});
  std::map<std::string, int> count;
  for (const JobObserved& job : listing.jobs) ++count[job.key];
  EXPECT_EQ(count[key(0)], 0);
  for (int i = 1; i <= 4; ++i) EXPECT_EQ(count[key(i)], 1) << i;
}

TEST_P(SchedContract, StatusesAndSignalsOfTheEnded) {  // C29: they end before anybody looks
  const std::pair<Behaviour, JobState> table[] = {{{Kind::exit, 0, ""}, JobState::completed},
                                                  {{Kind::exit, 3, ""}, JobState::failed},
                                                  {{Kind::exit, 96, ""}, JobState::failed},
                                                  {{Kind::exit, 143, ""}, JobState::failed},
                                                  {{Kind::raise, SIGSEGV, ""}, JobState::failed}};
  std::vector<JobRef> refs;
  for (size_t i = 0; i < std::size(table); ++i)
    refs.push_back(submit(request(static_cast<int>(i), table[i].first)));
  for (size_t i = 0; i < std::size(table); ++i) {
    JobEnd end = wait_end(refs[i]);
    const Behaviour& behaviour = table[i].first;
    EXPECT_EQ(end.key, key(static_cast<int>(i)));
    EXPECT_EQ(end.ref.id, refs[i].id);
    EXPECT_EQ(end.state, table[i].second) << end.state_text;
    if (behaviour.kind == Kind::exit) {
      EXPECT_EQ(end.exit_code, behaviour.status);
    } else {
      EXPECT_EQ(end.signal, behaviour.status);
    }
    EXPECT_TRUE(end.started_at);
    EXPECT_EQ(end.nodes.size(), 1u);
  }
  // All of them at once, and one that nobody knows.
  refs.push_back({987654, "", {}});
  auto ends = scheduler().ended(refs);
  ASSERT_TRUE(ends.ok());
  EXPECT_EQ(ends->size(), std::size(table));
}

TEST_P(SchedContract, ARunningJobHasNotEnded) {
  JobRequest r = request(1, {Kind::run, 0, ""});
  JobRef ref = submit(r);
  ASSERT_TRUE(wait_state(r.key, JobState::running));
  auto ends = scheduler().ended({ref});
  ASSERT_TRUE(ends.ok());
  EXPECT_TRUE(ends->empty());
  ends = scheduler().ended_by_key({r.key});
  ASSERT_TRUE(ends.ok()) << ends.error().message;
  EXPECT_TRUE(ends->empty());
}

TEST_P(SchedContract, AnEndIsFoundByItsKey) {  // the reply to the submit was lost
  JobRequest r = request(1, {Kind::exit, 3, ""});
  JobRef ref = submit(r);
  wait_end(ref);
  std::vector<JobEnd> found;
  EXPECT_TRUE(wait_until([&] {
    auto ends = scheduler().ended_by_key({key(2), r.key});
    EXPECT_TRUE(ends.ok()) << (ends.ok() ? "" : ends.error().message);
    if (ends.ok()) found = *ends;
    return !found.empty();
  }));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].ref.id, ref.id);
  EXPECT_EQ(found[0].key, r.key);
  EXPECT_EQ(found[0].state, JobState::failed) << found[0].state_text;
  EXPECT_EQ(found[0].exit_code, 3);
}

TEST_P(SchedContract, CancelOfARunningJob) {
  JobRequest r = request(1, {Kind::run, 0, ""});
  JobRef ref = submit(r);
  ASSERT_TRUE(wait_state(r.key, JobState::running));
  if (site_->traits().real_processes) {
    ASSERT_TRUE(wait_log(r, "up\n"));
  }
  ASSERT_TRUE(scheduler().cancel(ref, CancelMode::polite).ok());
  JobEnd end = wait_end(ref);
  EXPECT_EQ(end.state, JobState::cancelled);
  EXPECT_FALSE(find(r.key));
  if (site_->traits().real_processes) {
    EXPECT_THAT(log(r), HasSubstr("got TERM"));
    // Who did it is known to some sites only, and later than the end itself.
    EXPECT_EQ(end.cancelled_by_uid.value_or(geteuid()), geteuid());
  }
}

TEST_P(SchedContract, CancelOfAJobThatIgnoresIt) {
  for (CancelMode mode : {CancelMode::polite, CancelMode::kill}) {
    JobRequest r = request(mode == CancelMode::kill, {Kind::ignore_term, 0, ""});
    JobRef ref = submit(r);
    ASSERT_TRUE(wait_state(r.key, JobState::running));
    if (site_->traits().real_processes) {
      ASSERT_TRUE(wait_log(r, "up\n"));
    }
    ASSERT_TRUE(scheduler().cancel(ref, mode).ok());
    EXPECT_EQ(wait_end(ref).state, JobState::cancelled);
  }
}

TEST_P(SchedContract, CancelOfAPendingJob) {
  for (CancelMode mode : {CancelMode::polite, CancelMode::kill}) {
    JobRequest r = request(mode == CancelMode::kill, {Kind::run, 0, ""});
    site_->make_wait(r);
    JobRef ref = submit(r);
    ASSERT_TRUE(wait_until([&] {
      auto job = find(r.key);
      return job && job->state == JobState::pending && !job->reason.empty() &&
             job->reason != "None";
    }));
    auto seen = find(r.key);
    EXPECT_FALSE(seen->started_at);
    EXPECT_TRUE(seen->nodes.empty());
    ASSERT_TRUE(scheduler().cancel(ref, mode).ok());
    JobEnd end = wait_end(ref);
    EXPECT_EQ(end.state, JobState::cancelled);
    EXPECT_FALSE(find(r.key));
  }
}

TEST_P(SchedContract, CancelOfAnEndedOrUnknownJobIsASuccess) {  // C33
  JobRef ref = submit(request(1, {Kind::exit, 3, ""}));
  wait_end(ref);
  EXPECT_TRUE(scheduler().cancel(ref, CancelMode::polite).ok());
  EXPECT_TRUE(scheduler().cancel(ref, CancelMode::kill).ok());
  // What happened stays what happened.
  EXPECT_EQ(wait_end(ref).exit_code, 3);
  EXPECT_TRUE(scheduler().cancel({987654, "", {}}, CancelMode::polite).ok());
}

TEST_P(SchedContract, MoreTimeForARunningJobIsThereOnceOrRefused) {
  JobRequest r = request(1, {Kind::run, 0, ""});
  JobRef ref = submit(r);
  ASSERT_TRUE(wait_state(r.key, JobState::running));
  auto before = find(r.key);
  ASSERT_TRUE(before && before->started_at && before->ends_at);
  for (int i = 0; i < 2; ++i) {  // a second try asks for the same end
    Status done = scheduler().extend(ref, *before->started_at, *before->ends_at + minutes(30));
    if (!site_->traits().extends) {
      ASSERT_FALSE(done.ok());
      EXPECT_EQ(done.error().code, Code::permission_denied) << done.error().message;
    } else {
      ASSERT_TRUE(done.ok()) << done.error().message;
    }
  }
  Duration more = site_->traits().extends ? minutes(30) : minutes(0);
  auto after = find(r.key);
  ASSERT_TRUE(after && after->ends_at);
  EXPECT_EQ(*after->ends_at - *before->ends_at, more);
  EXPECT_EQ(after->time_limit, hours(1) + more);
  ASSERT_TRUE(scheduler().cancel(ref, CancelMode::polite).ok());
  wait_end(ref);
  EXPECT_FALSE(scheduler().extend(ref, *before->started_at, *before->ends_at + hours(1)).ok());
}

TEST_P(SchedContract, TheTimeLimitEndsAJob) {
  Duration limit = site_->traits().shortest_limit;
  if (limit > seconds(10) && !std::getenv("BERTH_TEST_SLOW"))
    GTEST_SKIP() << "takes over a minute here; BERTH_TEST_SLOW=1 runs it";
  JobRequest r = request(1, {Kind::run, 0, ""});
  r.resources.time_limit = limit;
  JobEnd end = wait_end(submit(r), limit + seconds(120));
  EXPECT_EQ(end.state, JobState::timed_out) << end.state_text;
}

TEST_P(SchedContract, JobsStartWithACleanEnvironment) {  // A21, C23
  if (!site_->traits().real_processes) GTEST_SKIP() << "no real processes";
  const char* names[] = {"SBATCH_PARTITION",  "SBATCH_TIMELIMIT",  "SBATCH_MEM_PER_NODE",
                         "SBATCH_QOS",        "SBATCH_ACCOUNT",    "SBATCH_EXPORT",
                         "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SRUN_CPUS_PER_TASK",
                         "SLURM_JOB_NAME",    "OF_THE_DAEMON"};
  for (const char* name : names) setenv(name, "999999", 1);
  JobRequest r = request(1, {Kind::script, 0, "env; echo pwd=$(pwd); exit 5\n"});
  JobRef ref = submit(r);
  for (const char* name : names) unsetenv(name);
  EXPECT_EQ(wait_end(ref).exit_code, 5);
  std::string text = log(r);
  EXPECT_THAT(text, Not(HasSubstr("999999")));
  EXPECT_THAT(text, Not(HasSubstr("SLURM_GET_USER_ENV")));  // no login shell
  for (const char* part : {"PATH=", "HOME=", "USER=", "LOGNAME=", "SHELL="})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(text, HasSubstr("pwd=" + r.work_dir));
  EXPECT_THAT(text, Not(HasSubstr("SLURM_TIME_FORMAT")));
  EXPECT_THAT(text, Not(HasSubstr("TZ=UTC0")));
}

TEST_P(SchedContract, TheLogIsAppendedTo) {
  if (!site_->traits().real_processes) GTEST_SKIP() << "no real processes";
  JobRequest r = request(1, {Kind::script, 0, "echo out; echo err >&2\n"});
  r.log_path = fmt::format("{}/a %j folder/{}.log", site_->directory(), r.key);
  mkdir((site_->directory() + "/a %j folder").c_str(), 0755);
  std::ofstream(r.log_path) << "before\n";
  wait_end(submit(r));
  ASSERT_TRUE(wait_log(r, "err\n"));
  EXPECT_EQ(log(r), "before\nout\nerr\n");
}

TEST_P(SchedContract, AnUnwritableLogIsRefused) {  // A17
  if (!site_->traits().real_processes) GTEST_SKIP() << "no real processes";
  JobRequest r = request(1, {Kind::run, 0, ""});
  r.log_path = "/proc/nodir/x.out";
  auto refused = scheduler().submit(r);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
  EXPECT_THAT(refused.error().message, HasSubstr("/proc/nodir/x.out"));
  EXPECT_FALSE(find(r.key));
}

TEST_P(SchedContract, WhoseJobItIs) {
  JobRequest r = request(1, {Kind::run, 0, ""});
  JobRef ref = submit(r);
  ASSERT_TRUE(wait_state(r.key, JobState::running));
  auto identity = scheduler().identify(ref.id);
  ASSERT_TRUE(identity.ok()) << identity.error().message;
  ASSERT_TRUE(*identity);
  const JobIdentity& job = **identity;
  EXPECT_EQ(job.ref.id, ref.id);
  EXPECT_EQ(job.key, r.key);
  EXPECT_EQ(job.account, r.resources.account);
  EXPECT_FALSE(job.user.empty());
  EXPECT_EQ(job.state, JobState::running);
  EXPECT_EQ(job.nodes.size(), 1u);
  EXPECT_EQ(job.addresses.size(), 1u);
  EXPECT_TRUE(job.ends_at);
  if (site_->traits().real_processes) {
    EXPECT_EQ(job.uid, geteuid());
    EXPECT_THAT(job.addresses, Contains("127.0.0.1"));
  }
  ASSERT_TRUE(scheduler().cancel(ref, CancelMode::polite).ok());
  wait_end(ref);
  auto gone = scheduler().identify(ref.id);
  ASSERT_TRUE(gone.ok());
  EXPECT_FALSE(*gone);
  auto unknown = scheduler().identify(987654);
  ASSERT_TRUE(unknown.ok()) << unknown.error().message;
  EXPECT_FALSE(*unknown);
}

TEST_P(SchedContract, OthersCannotPoseAsSomebodyElse) {  // C11
  std::string pose =
      "x UserId=root(0) \x1f"
      "0\x1f>\nJobId=1|y";
  auto id = site_->run_foreign_job(pose);
  if (!id) GTEST_SKIP() << "one user only";
  std::optional<JobIdentity> job;
  ASSERT_TRUE(wait_until([&] {
    auto identity = scheduler().identify(*id);
    if (identity.ok() && *identity && !(*identity)->nodes.empty()) job = **identity;
    return job.has_value();
  }));
  EXPECT_EQ(job->user, "alice");
  EXPECT_NE(job->uid, 0u);
  EXPECT_EQ(job->key, pose);
  // A name as ours, by somebody else, is not ours either; and odd names do no harm to the list.
  auto poser = site_->run_foreign_job(key(1));
  ASSERT_TRUE(poser);
  submit(request(2, {Kind::run, 0, ""}));
  EXPECT_FALSE(find(key(1)));
  EXPECT_TRUE(find(key(2)));
}

TEST_P(SchedContract, ARefusalSaysWhyAndLeavesNoJob) {
  JobRequest r = request(1, {Kind::run, 0, ""});
  std::string words = site_->make_impossible(r);
  auto refused = scheduler().submit(r);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::invalid_argument) << refused.error().message;
  EXPECT_THAT(refused.error().message, HasSubstr(words));
  EXPECT_THAT(refused.error().message, HasSubstr(r.key));
  EXPECT_FALSE(find(r.key));
}

TEST_P(SchedContract, HostileKeysAreRefused) {
  for (const char* name : {"", "a b", "../../etc/x", "a\nb", "a;b", "-x y", "a/b", "$(id)"}) {
    JobRequest r = request(1, {Kind::run, 0, ""});
    r.key = name;
    auto refused = scheduler().submit(r);
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_EQ(refused.error().code, Code::invalid_argument) << name;
  }
}

TEST_P(SchedContract, DiagnosisHasNoProblemOnAGoodSite) {
  for (const sched::Finding& finding : scheduler().diagnose())
    EXPECT_NE(finding.level, sched::Finding::Level::problem)
        << finding.what << ": " << finding.detail;
}

// The script of a replica with a stand-in for `berth agent`, which tells what reached it.
class SchedContractScript : public SchedContract {
 protected:
  void SetUp() override {
    SchedContract::SetUp();
    if (IsSkipped()) return;
    if (!site_->traits().real_processes) GTEST_SKIP() << "no real processes";
    script_.key = key(1);
    script_.launcher = site_->traits().starts_steps ? sched::JobScript::Launcher::srun
                                                    : sched::JobScript::Launcher::direct;
    script_.berth = site_->directory() + "/berth";
    script_.engine_argv = {"/opt/engine", "a b", "$(id)", "'\"", "l1\nl2", "", "{port}"};
    std::ofstream(script_.berth) << "#!/bin/bash\n"
                                    "trap 'echo agent got TERM; exit 20' TERM\n"
                                    "trap 'echo agent got USR1' USR1\n"
                                    "printf 'arg=[%s]\\n' \"$@\"\n"
                                    "env | grep -E '^(CUDA_LIST|T|E|Q|SLURM_[A-Z_]*)='\n"
                                    "printf 'ML=[%s]\\n' \"$ML\"\necho agent up\n"
                                    "[ \"$1\" = agent ] && [ \"$2\" = --end ] && exit \"$3\"\n"
                                    "while :; do sleep 0.1; done\n";
    chmod(script_.berth.c_str(), 0755);
  }
  JobRequest scripted() {
    auto text = sched::render_job_script(script_);
    EXPECT_TRUE(text.ok());
    JobRequest r = request(1, {Kind::run, 0, ""});
    r.script = *text;
    return r;
  }
  sched::JobScript script_;
};

TEST_P(SchedContractScript, EverythingArrivesExactlyAndTheStatusComesBack) {  // C19, C21, A27
  script_.agent_args = {"--end", "12"};
  script_.cpus = 4;
  script_.env = {
      {"CUDA_LIST", "0,1"}, {"T", "two words"}, {"E", ""}, {"Q", "a'b\"c"}, {"ML", "l1\nl2"}};
  script_.setup = "\xef\xbb\xbf\r\n#SBATCH --partition=secret\r\necho setup ran\r\n";
  JobRequest r = scripted();
  r.resources.cpus_per_task = 4;
  r.resources.mem_mib = 200;
  setenv("SLURM_MEM_PER_CPU", "100", 1);  // A21: as in an outer job
  setenv("SRUN_CPUS_PER_TASK", "2", 1);
  JobRef ref = submit(r);
  unsetenv("SLURM_MEM_PER_CPU");
  unsetenv("SRUN_CPUS_PER_TASK");
  JobEnd end = wait_end(ref);
  EXPECT_EQ(end.exit_code, 12) << log(r);
  ASSERT_TRUE(wait_log(r, "agent up\n"));
  std::string text = step_log(r);
  EXPECT_THAT(text, HasSubstr("setup ran\n"));
  EXPECT_THAT(text, HasSubstr("arg=[agent]\narg=[--end]\narg=[12]\narg=[--]\narg=[/opt/engine]\n"
                              "arg=[a b]\narg=[$(id)]\narg=['\"]\narg=[l1\nl2]\narg=[]\n"
                              "arg=[{port}]\n"));
  for (const char* line :
       {"CUDA_LIST=0,1\n", "T=two words\n", "E=\n", "Q=a'b\"c\n", "ML=[l1\nl2]\n"})
    EXPECT_THAT(text, HasSubstr(line));
  if (site_->traits().starts_steps) {
    EXPECT_THAT(text, HasSubstr("SLURM_STEP_ID=0\n"));
    EXPECT_THAT(text, HasSubstr("SLURM_CPUS_PER_TASK=4\n"));
    EXPECT_THAT(text, HasSubstr("SLURM_NTASKS=1\n"));
    EXPECT_THAT(text, Not(HasSubstr("SLURM_MEM_PER_CPU")));
  }
}

TEST_P(SchedContractScript, TheAgentIsToldAndTheScriptWaitsForIt) {  // A11
  JobRequest r = scripted();
  JobRef ref = submit(r);
  ASSERT_TRUE(wait_log(r, "agent up\n")) << log(r);
  ASSERT_TRUE(scheduler().cancel(ref, CancelMode::polite).ok());
  EXPECT_EQ(wait_end(ref).state, JobState::cancelled);
  EXPECT_TRUE(wait_log(r, "agent got TERM")) << log(r);
}

TEST_P(SchedContractScript, TheWarningBeforeTheTimeLimitReachesTheAgent) {
  Duration limit = site_->traits().shortest_limit * 2;
  if (limit > seconds(10) && !std::getenv("BERTH_TEST_SLOW"))
    GTEST_SKIP() << "takes over a minute here; BERTH_TEST_SLOW=1 runs it";
  JobRequest r = scripted();
  r.resources.time_limit = limit;
  r.signal_lead = limit / 2;
  JobRef ref = submit(r);
  ASSERT_TRUE(wait_until([&] { return log(r).find("agent got USR1") != std::string::npos; },
                         limit + seconds(120)))
      << log(r);
  auto job = find(r.key);
  EXPECT_TRUE(job && job->state == JobState::running);
  ASSERT_TRUE(scheduler().cancel(ref, CancelMode::polite).ok());
  wait_end(ref);
}

TEST_P(SchedContract, AFrozenSchedulerIsNotAnEmptyOne) {  // C03, law 3
  JobRequest before = request(1, {Kind::run, 0, ""}), during = request(2, {Kind::run, 0, ""});
  JobRef running = submit(before);
  ASSERT_TRUE(wait_state(before.key, JobState::running));
  if (!site_->freeze()) GTEST_SKIP() << "cannot be frozen";
  auto started = std::chrono::steady_clock::now();
  JobListing listing = scheduler().list();
  EXPECT_EQ(listing.quality, JobListing::Quality::failed);
  EXPECT_FALSE(listing.error.empty());
  EXPECT_FALSE(listing.absence_is_evidence(listing.asked_at - seconds(1)));
  EXPECT_LT(std::chrono::steady_clock::now() - started, seconds(30));
  auto submitted = scheduler().submit(during);
  EXPECT_FALSE(submitted.ok());
  EXPECT_EQ(submitted.error().code, Code::unknown_outcome) << submitted.error().message;
  EXPECT_FALSE(scheduler().identify(running.id).ok());
  Status cancelled = scheduler().cancel(running, CancelMode::polite);
  EXPECT_TRUE(cancelled.ok() || cancelled.error().code == Code::unknown_outcome ||
              cancelled.error().code == Code::unavailable);
  site_->thaw();
  // It was submitted after all, and is found by its key: once.
  EXPECT_TRUE(wait_until([&] {
    JobListing now = scheduler().list();
    return now.quality == JobListing::Quality::complete;
  }));
  EXPECT_TRUE(find(during.key));
}

std::vector<std::string> site_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : sched_sites()) names.push_back(name);
  return names;
}
std::string name_of(const ::testing::TestParamInfo<std::string>& info) { return info.param; }

INSTANTIATE_TEST_SUITE_P(Site, SchedContract, ::testing::ValuesIn(site_names()), name_of);
INSTANTIATE_TEST_SUITE_P(Site, SchedContractScript, ::testing::ValuesIn(site_names()), name_of);

}  // namespace
}  // namespace berth::contract
