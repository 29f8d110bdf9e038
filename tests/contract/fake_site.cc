// The simulator's fake Slurm under the same suite as the real ones: what the simulation shows is
// worth what this holds.
#include <fmt/format.h>

#include <map>

#include "contract/sched_contract.h"
#include "sim/slurm_fake.h"

namespace berth::contract {
namespace {

class FakeSite : public SchedSite {
 public:
  FakeSite() : slurm_(1, now_) {
    now_ = wall_now();
    slurm_.max_queue_wait = seconds(2);
    slurm_.lets_extend = true;
  }

  sched::Scheduler& scheduler() override { return slurm_; }
  SchedTraits traits() const override {
    SchedTraits traits;
    traits.real_processes = false;
    traits.extends = true;
    traits.account = "gaia";
    return traits;
  }
  std::string directory() const override { return "/"; }

  void step() override {
    now_ += milliseconds(200);
    slurm_.advance();
    for (sim::JobTruth& job : slurm_.jobs())
      if (job.phase == sim::JobTruth::Phase::running) behave(job);
  }

  void give_behaviour(sched::JobRequest& request, const Behaviour& behaviour) override {
    behaviours_[request.key] = behaviour;
  }
  void make_wait(sched::JobRequest&) override {
    slurm_.min_queue_wait = slurm_.max_queue_wait = hours(2);
  }
  std::string make_impossible(sched::JobRequest& request) override {
    request.resources.partition = "nope";
    return "invalid partition specified: nope";
  }

  bool freeze() override {
    slurm_.frozen = true;
    slurm_.down_until = now_ + minutes(10);
    return true;
  }
  void thaw() override {
    now_ = slurm_.down_until;
    slurm_.frozen = false;
    step();
  }

 private:
  void behave(sim::JobTruth& job) {
    const Behaviour& behaviour = behaviours_[job.key];
    if (behaviour.kind == Behaviour::Kind::exit) {
      slurm_.begin_end(job, behaviour.status == 0 ? JobState::completed : JobState::failed,
                       seconds(1));
      job.exit_code = behaviour.status;
    } else if (behaviour.kind == Behaviour::Kind::raise) {
      slurm_.begin_end(job, JobState::failed, seconds(1));
      job.signal = behaviour.status;
    }
  }

  Instant now_{};
  sim::SlurmFake slurm_;
  std::map<std::string, Behaviour> behaviours_;
};

const SchedRegistration kFake("fake", [] { return std::make_unique<FakeSite>(); });

}  // namespace
}  // namespace berth::contract
