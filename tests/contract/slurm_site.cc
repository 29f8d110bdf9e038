// A real Slurm cluster as a site of the contract suite, such as tests/rig/slurm.py starts.
//
//   BERTH_TEST_SLURM_CONF  its slurm.conf: DIR/etc/slurm.conf of the rig
//   BERTH_TEST_SLURM_BIN   folder of its commands, when they are not in PATH
//   BERTH_TEST_SLURM_ACCOUNT  an account of the user that runs the tests; default "infra"
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/id.h"
#include "contract/sched_contract.h"
#include "runtime/command.h"
#include "sched/slurm_answer.h"
#include "sched/slurm_cli.h"

namespace berth::contract {
namespace {

class SlurmSite : public SchedSite {
 public:
  explicit SlurmSite(const std::string& conf) {
    cluster_ = conf.substr(0, conf.find("/etc/slurm.conf"));
    directory_ = fmt::format("{}/shared/contract-{}", cluster_, random_hex(4));
    std::filesystem::create_directories(directory_);
    chmod(directory_.c_str(), 01777);
    settings_.slurm_conf = conf;
    if (const char* bin = std::getenv("BERTH_TEST_SLURM_BIN")) settings_.bin_dir = bin;
    if (!settings_.bin_dir.empty()) settings_.path = settings_.bin_dir + ":" + settings_.path;
    slurm_ = std::move(*sched::SlurmScheduler::open(settings_));
  }
  ~SlurmSite() override {
    thaw();
    for (const JobObserved& job : slurm_->list().jobs)
      if (!slurm_->cancel(job.ref, sched::CancelMode::kill)) break;
    for (uint64_t id : foreign_)
      if (!slurm_->cancel({id, "", {}}, sched::CancelMode::kill)) break;
    std::filesystem::remove_all(directory_);
  }

  sched::Scheduler& scheduler() override { return *slurm_; }
  SchedTraits traits() const override {
    SchedTraits traits;
    traits.extends = geteuid() == 0;  // root is an operator of Slurm's
    traits.starts_steps = true;
    traits.shortest_limit = seconds(60);
    const char* account = std::getenv("BERTH_TEST_SLURM_ACCOUNT");
    traits.account = account ? account : "infra";
    return traits;
  }
  std::string directory() const override { return directory_; }
  void step() override { std::this_thread::sleep_for(milliseconds(50)); }

  void make_wait(sched::JobRequest& request) override {
    // Over the partition's limit: accepted by default, and pending for ever (PartitionTimeLimit).
    request.resources.partition = "short";
    request.resources.time_limit = hours(1);
  }
  std::string make_impossible(sched::JobRequest& request) override {
    request.resources.partition = "nope";
    return "invalid partition specified: nope";
  }

  std::optional<uint64_t> run_foreign_job(const std::string& name) override {
    auto alice = runtime::run_as_user("alice");
    if (geteuid() != 0 || !alice) return std::nullopt;
    sched::SlurmCommand command;
    command.tool = "sbatch";
    command.args = {"--parsable",
                    "--export=ALL",
                    "--output=/dev/null",
                    "--job-name=" + name,
                    "--comment=line1\nline2|x UserId=root(0)",
                    "--chdir=" + directory_};
    command.input = "#!/bin/bash\nsleep 1000\n";
    command.run_as = *alice;
    auto result = sched::run_slurm(settings_, command);
    if (!result || !result->exited(0)) return std::nullopt;
    auto job = sched::parse_submitted(result->output);
    if (!job) return std::nullopt;
    foreign_.push_back(job->id);
    return job->id;
  }

  bool freeze() override {
    std::ifstream in(cluster_ + "/run/slurmctld.pid");
    pid_t pid = 0;
    if (!(in >> pid) || kill(pid, SIGSTOP) != 0) return false;
    frozen_ = pid;
    return true;
  }
  void thaw() override {
    if (frozen_) kill(frozen_, SIGCONT);
    frozen_ = 0;
  }

 private:
  sched::SlurmSettings settings_;
  std::string cluster_;
  std::string directory_;
  std::vector<uint64_t> foreign_;
  pid_t frozen_ = 0;
  std::unique_ptr<sched::SlurmScheduler> slurm_;
};

const SchedRegistration kSlurm("slurm", []() -> std::unique_ptr<SchedSite> {
  const char* conf = std::getenv("BERTH_TEST_SLURM_CONF");
  if (!conf) return nullptr;
  return std::make_unique<SlurmSite>(conf);
});

}  // namespace
}  // namespace berth::contract
