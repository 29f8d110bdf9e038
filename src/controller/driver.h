// Runs the controller's core against a scheduler: the shell around controller.h.
//
// One look at the queue at a time, every poll_interval, or rest_interval while there is nothing to
// do (a replica's end is told by its agent, or by its silence); after failures the looks get rarer,
// up to failing_interval, with jitter (C25). Steps happen every tick and after each wake(). Effects
// run on the pool, each scheduler call in a task of its own; what came back is told to the core,
// which then plans again. A submit is prepared (script, token, folders) on the pool as well; when
// that fails it counts as a refusal and nothing was submitted.
//
// Guarantees: one list() in flight; every effect handed out is answered, also when the scheduler
// fails. stop() waits for calls in flight, so that no submit's answer is lost needlessly.
// Ownership: everything in DriverPorts outlives the driver. Threading: the control loop.
#pragma once

#include <functional>
#include <string>

#include "controller/controller.h"
#include "controller/leases.h"
#include "runtime/blocking_pool.h"
#include "runtime/loop.h"
#include "sched/sched.h"

namespace berth::controller {

struct DriverPorts {
  runtime::Loop& loop;
  runtime::BlockingPool& pool;
  sched::Scheduler& scheduler;
  State& state;
  Controller& controller;
  Leases& leases;
  Clock clock;
  // Blocking; on the pool. Everything the job needs, or why it cannot be submitted.
  std::function<Result<sched::JobRequest>(const ReplicaRecord&, const ServiceRecord&)> prepare;
  // What the gateway is told may have changed; on the control loop.
  std::function<void()> publish;
};

struct DriverSettings {
  Duration tick = seconds(1);
  Duration poll_interval = seconds(2);
  Duration rest_interval = seconds(10);     // while every service is as declared; never shorter
  Duration failing_interval = seconds(60);  // longest time between two looks while they fail
};

// Time to the next look at the queue after `failures` failed ones in a row. Doubles from
// poll_interval up to failing_interval, plus up to a quarter by `salt`.
enum class Pace { busy, rest };
Duration next_look(const DriverSettings& settings, Pace pace, int failures, uint64_t salt);

class Driver {
 public:
  Driver(DriverPorts ports, DriverSettings settings);
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  void start();
  // Something changed: plan now.
  void wake();
  // No further step or look; returns when no call is in flight.
  runtime::Task<void> stop();

 private:
  class Alarm final : public runtime::Timer {
   public:
    Alarm(Driver& driver, void (Driver::*what)()) : driver_(driver), what_(what) {}
    void in(Duration d);

   private:
    void fire() override;
    Driver& driver_;
    void (Driver::*what_)();
  };

  void step();
  void look();
  void run(const plan::Effects& effects);
  runtime::Task<void> look_once();
  runtime::Task<void> submit(std::string key);
  runtime::Task<void> cancel(plan::CancelEffect effect);
  runtime::Task<void> extend(plan::ExtendEffect effect);
  runtime::Task<void> look_up(plan::LookUpEffect effect);

  DriverPorts ports_;
  DriverSettings settings_;
  Alarm step_alarm_{*this, &Driver::step};
  Alarm look_alarm_{*this, &Driver::look};
  enum class Life { idle, running, stopped } life_ = Life::idle;
  enum class Look { none, in_flight } look_ = Look::none;
  Pace pace_ = Pace::busy;  // what the next look was timed for
  int failures_ = 0;
  uint64_t looks_ = 0;
  runtime::TaskScope calls_;  // last: destroyed before what its tasks use
};

}  // namespace berth::controller
