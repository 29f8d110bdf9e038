#include "controller/driver.h"

#include <algorithm>

#include "base/log.h"

namespace berth::controller {
namespace {

// What a submit's task brings back from the pool.
struct Submitted {
  Result<JobRef> outcome;
  std::string script;
};

}  // namespace

Duration next_look(const DriverSettings& settings, Pace pace, int failures, uint64_t salt) {
  if (failures == 0)
    return pace == Pace::busy ? settings.poll_interval
                              : std::max(settings.poll_interval, settings.rest_interval);
  Duration wait = settings.poll_interval * (int64_t{1} << std::min(failures, 10));
  wait = std::min(wait, settings.failing_interval);
  return wait + Duration(static_cast<int64_t>(salt % 256) * wait.count() / 1024);
}

void Driver::Alarm::in(Duration d) {
  arm(driver_.ports_.loop.timers(), driver_.ports_.loop.now() + d);
}

void Driver::Alarm::fire() {
  Driver* driver = &driver_;
  auto what = what_;
  driver_.ports_.loop.post([driver, what] { (driver->*what)(); });
}

Driver::Driver(DriverPorts ports, DriverSettings settings)
    : ports_(std::move(ports)), settings_(settings), calls_(ports_.loop) {}

void Driver::start() {
  CHECK(life_ == Life::idle);
  life_ = Life::running;
  step_alarm_.in(Duration(0));
  look_alarm_.in(Duration(0));
}

void Driver::wake() {
  if (life_ == Life::running) step_alarm_.in(Duration(0));
}

runtime::Task<void> Driver::stop() {
  life_ = Life::stopped;
  step_alarm_.disarm();
  look_alarm_.disarm();
  co_await calls_.join();
}

void Driver::step() {
  if (life_ != Life::running) return;
  step_alarm_.in(settings_.tick);
  Controller::Step step = ports_.controller.step(ports_.clock());
  if (!step.committed)
    log_error("controller", "could not record what to do, nothing was done: {}",
              step.committed.error().message);
  run(step.effects);
  if (step.publish) ports_.publish();
  // There is something to do again: what is known of the queue may be old.
  if (pace_ == Pace::rest && !plan::at_rest(ports_.controller.report())) {
    pace_ = Pace::busy;
    look();
  }
}

void Driver::run(const plan::Effects& effects) {
  Instant now = ports_.clock();
  for (const plan::DrainEffect& drain : effects.drains)
    if (auto s = ports_.leases.ask_drain(drain.lease_id, drain.why, now); !s)
      log_error("controller", "could not ask {} to drain: {}", drain.key, s.error().message);
  for (const plan::SubmitEffect& effect : effects.submits) calls_.spawn(submit(effect.key));
  for (const plan::CancelEffect& effect : effects.cancels) calls_.spawn(cancel(effect));
  for (const plan::ExtendEffect& effect : effects.extensions) calls_.spawn(extend(effect));
  if (!effects.lookup.empty()) calls_.spawn(look_up(effects.lookup));
  if (!effects.drains.empty()) ports_.publish();
}

void Driver::look() {
  if (life_ != Life::running || look_ == Look::in_flight) return;
  look_ = Look::in_flight;
  calls_.spawn(look_once());
}

runtime::Task<void> Driver::look_once() {
  sched::Scheduler* scheduler = &ports_.scheduler;
  auto list = [scheduler] { return scheduler->list(); };
  JobListing listing = co_await ports_.pool.run(list);
  look_ = Look::none;
  bool good = listing.quality == JobListing::Quality::complete;
  if (!good && failures_ == 0)
    log_warn("controller", "the queue could not be read: {}", listing.error);
  if (good && failures_ > 0)
    log_info("controller", "the queue can be read again after {} failures", failures_);
  failures_ = good ? 0 : failures_ + 1;
  ports_.controller.on_listing(listing);
  if (life_ != Life::running) co_return;
  pace_ = plan::at_rest(ports_.controller.report()) ? Pace::rest : Pace::busy;
  look_alarm_.in(next_look(settings_, pace_, failures_, ++looks_ * 0x9e3779b97f4a7c15u >> 32));
  wake();
}

runtime::Task<void> Driver::submit(std::string key) {
  const ReplicaRecord* replica = ports_.state.replica(key);
  const ServiceRecord* service = replica ? ports_.state.service(replica->service) : nullptr;
  if (!service) {
    ports_.controller.on_submit_outcome(key, not_found("the service was removed meanwhile"),
                                        ports_.clock());
    co_return;
  }
  DriverPorts* ports = &ports_;
  ReplicaRecord r = *replica;
  ServiceRecord s = *service;
  auto work = [ports, r, s] {
    auto request = ports->prepare(r, s);
    if (!request) {
      Error error = std::move(request).error();
      // Whatever it was, nothing was submitted: a refusal, which people must look at.
      error.code = Code::invalid_argument;
      return Submitted{std::move(error), ""};
    }
    Submitted done{ports->scheduler.submit(*request), ""};
    done.script = std::move(request->script);
    return done;
  };
  Submitted done = co_await ports_.pool.run(work);
  if (done.outcome)
    log_info("controller", "submitted job {} for {} as {}", done.outcome->id, s.public_name, key);
  else
    log_warn("controller", "submit for {} as {}: {}", s.public_name, key,
             done.outcome.error().message);
  ports_.controller.on_submit_outcome(key, done.outcome, ports_.clock(), std::move(done.script));
  wake();
}

runtime::Task<void> Driver::cancel(plan::CancelEffect effect) {
  sched::Scheduler* scheduler = &ports_.scheduler;
  auto mode = effect.force == plan::CancelEffect::Force::kill ? sched::CancelMode::kill
                                                              : sched::CancelMode::polite;
  JobRef job = effect.job;
  auto work = [scheduler, job, mode] { return scheduler->cancel(job, mode); };
  Status outcome = co_await ports_.pool.run(work);
  if (!outcome) log_warn("controller", "cancel of job {}: {}", job.id, outcome.error().message);
  ports_.controller.on_cancel_outcome(effect.key, outcome);
  look();  // to see the end soon
  wake();
}

// Whether it worked shows in the next listing, as a later end.
runtime::Task<void> Driver::extend(plan::ExtendEffect effect) {
  sched::Scheduler* scheduler = &ports_.scheduler;
  auto work = [scheduler, effect] {
    return scheduler->extend(effect.job, effect.started_at, effect.until);
  };
  Status outcome = co_await ports_.pool.run(work);
  if (!outcome) log_warn("controller", "{}: {}", effect.key, outcome.error().message);
  look();
}

runtime::Task<void> Driver::look_up(plan::LookUpEffect effect) {
  Instant asked_at = ports_.clock();
  sched::Scheduler* scheduler = &ports_.scheduler;
  std::vector<JobRef> jobs = effect.jobs;
  std::vector<std::string> keys = effect.keys;
  auto work = [scheduler, jobs, keys]() -> Result<std::vector<JobEnd>> {
    std::vector<JobEnd> all;
    if (!jobs.empty()) {
      auto ends = scheduler->ended(jobs);
      if (!ends) return ends;
      all = std::move(ends).value();
    }
    if (!keys.empty()) {
      auto ends = scheduler->ended_by_key(keys);
      if (!ends) return ends;
      for (JobEnd& end : *ends) all.push_back(std::move(end));
    }
    return all;
  };
  Result<std::vector<JobEnd>> ends = co_await ports_.pool.run(work);
  if (!ends) log_warn("controller", "how jobs ended could not be asked: {}", ends.error().message);
  ports_.controller.on_ends(effect, asked_at, ends);
  wake();
}

}  // namespace berth::controller
