// One suite for every implementation of the Scheduler port.
//
// A site is an implementation together with a place where its jobs can run. Sites register
// themselves from a static object in their own .cc of this folder:
//
//   const SchedRegistration fake("fake", [] { return std::make_unique<FakeSite>(); });
//
// and every test of sched_contract.cc then runs on them. A factory may return nullptr: the site is
// not available here, and its tests are skipped with a note. Each test makes a site of its own.
// What a site cannot do (freeze its scheduler, run scripts) it says by its traits; such tests skip.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sched/sched.h"

namespace berth::contract {

// What a job of the suite does. Sites with real processes get a bash script; others read this.
struct Behaviour {
  enum class Kind {
    exit,         // ends at once with `status`
    raise,        // ends at once by signal `status`
    run,          // runs until it is told to stop by SIGTERM, then ends with 0
    ignore_term,  // runs until it is killed
    script,       // `text`, for sites with real processes
  };
  Kind kind = Kind::run;
  int status = 0;
  std::string text;
};

struct SchedTraits {
  bool real_processes = true;            // scripts run, logs are written
  bool idempotent_submit = false;        // submitting a key again returns its job
  bool extends = false;                  // the site lets Berth lengthen a running job
  bool starts_steps = false;             // the agent is started by srun
  Duration shortest_limit = seconds(1);  // of time limits
  std::string account;                   // an account the site lets jobs be charged to
};

class SchedSite {
 public:
  virtual ~SchedSite() = default;
  virtual sched::Scheduler& scheduler() = 0;
  virtual SchedTraits traits() const = 0;
  // An existing directory that jobs can read and write.
  virtual std::string directory() const = 0;
  // One step of waiting for the scheduler: a short sleep, or a turn of a fake's clock.
  virtual void step() = 0;
  // The request as the site's scheduler can run it: where the script of a behaviour is made.
  virtual void give_behaviour(sched::JobRequest& request, const Behaviour& behaviour);
  // Changes a request so that its job will wait, using other jobs if need be.
  virtual void make_wait(sched::JobRequest& request) = 0;
  // Changes a request so that the scheduler refuses it for good; returns words of the refusal.
  virtual std::string make_impossible(sched::JobRequest& request) = 0;
  // A running job of another user whose name is `name`; nullopt: the site has one user only.
  virtual std::optional<uint64_t> run_foreign_job(const std::string& name);
  // Stops the scheduler from answering, and lets it go on. False: it cannot be done here.
  virtual bool freeze() { return false; }
  virtual void thaw() {}
};

using MakeSchedSite = std::function<std::unique_ptr<SchedSite>()>;

struct SchedRegistration {
  SchedRegistration(std::string name, MakeSchedSite make);
};

std::vector<std::pair<std::string, MakeSchedSite>>& sched_sites();

}  // namespace berth::contract
