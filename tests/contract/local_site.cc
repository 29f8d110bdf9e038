// The local scheduler as a site of the contract suite.
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "contract/sched_contract.h"
#include "sched/local.h"
#include "sched/shim.h"

namespace berth::contract {
namespace {

// The tests' own program is the shim's, as berth is outside of tests: "contract_tests berth-shim
// DIR". The C library hands a constructor main()'s arguments.
__attribute__((constructor)) void become_a_shim(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "berth-shim") == 0) _exit(sched::run_shim(argv[2]));
}

constexpr int kSlots = 6;

class LocalSite : public SchedSite {
 public:
  LocalSite() {
    char folder[] = "/tmp/contract-local-XXXXXX";
    root_ = mkdtemp(folder);
    std::filesystem::create_directory(root_ + "/shared");
    sched::LocalSettings settings;
    settings.state_dir = root_ + "/state";
    settings.shim_argv = {std::filesystem::read_symlink("/proc/self/exe").string(), "berth-shim"};
    settings.max_running = kSlots;
    settings.kill_wait = seconds(2);
    local_ = std::move(*sched::LocalScheduler::open(settings));
  }
  ~LocalSite() override {
    for (int i = 0; i < 1000; ++i) {
      JobListing listing = local_->list();
      if (listing.jobs.empty()) break;
      for (const JobObserved& job : listing.jobs)
        if (!local_->cancel(job.ref, sched::CancelMode::kill)) break;
      step();
    }
    std::filesystem::remove_all(root_);
  }

  sched::Scheduler& scheduler() override { return *local_; }
  SchedTraits traits() const override {
    SchedTraits traits;
    traits.idempotent_submit = true;
    traits.account = "gaia";
    return traits;
  }
  std::string directory() const override { return root_ + "/shared"; }
  void step() override { std::this_thread::sleep_for(milliseconds(10)); }

  void make_wait(sched::JobRequest&) override {
    for (int i = 0; i < kSlots; ++i) {
      sched::JobRequest blocker;
      blocker.key = fmt::format("berth-blocker-{}", i);
      blocker.log_path = directory() + "/blocker.log";
      blocker.work_dir = directory();
      give_behaviour(blocker, {Behaviour::Kind::run, 0, ""});
      if (!local_->submit(blocker)) return;
    }
    for (int i = 0; i < 1000; ++i) {
      size_t running = 0;
      for (const JobObserved& job : local_->list().jobs) running += job.state == JobState::running;
      if (running == kSlots) return;
      step();
    }
  }
  std::string make_impossible(sched::JobRequest& request) override {
    request.resources.nodes = 2;
    return "2 nodes";
  }

 private:
  std::string root_;
  std::unique_ptr<sched::LocalScheduler> local_;
};

const SchedRegistration kLocal("local", [] { return std::make_unique<LocalSite>(); });

}  // namespace
}  // namespace berth::contract
