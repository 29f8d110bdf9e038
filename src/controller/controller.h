// The controller's core: keeps what is declared and what runs the same.
//
// It holds the newest observations, plans, commits, and only then hands out effects (intent before
// effect). It knows no loop, thread, socket or scheduler: the driver (driver.h) runs it on the
// control thread, the simulator runs the same object on a virtual clock.
//
//   Step s = controller.step(now);      // plan, commit
//   ... run s.effects ...               // sbatch, scancel, sacct
//   controller.on_submit_outcome(...);  // what came back; it counts from the next step
//
// Guarantees: step() hands out no effect when its commit failed; the same plan is then made again.
// Each submit handed out must be answered by exactly one on_submit_outcome, each cancel by one
// on_cancel_outcome, each lookup by one on_ends; until then it is not handed out again.
// Ownership: the State outlives the Controller. Threading: the control thread only.
// Errors: Step::committed.
// Cost: a step is one plan() and at most one commit.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "controller/metrics.h"
#include "controller/routes.h"
#include "controller/state.h"
#include "plan/plan.h"

namespace berth::controller {

class Controller {
 public:
  // `now`: heartbeats can arrive from here on; nothing expires before a grace from it.
  Controller(State& state, plan::Policy policy, Instant now);

  struct Step {
    Status committed;
    plan::Effects effects;
    bool publish = false;  // routes() would give something else than after the last step
  };
  Step step(Instant now);

  void on_listing(const JobListing& listing);
  // `script`: the text that was submitted, kept for people; may be empty.
  void on_submit_outcome(const std::string& key, const Result<JobRef>& outcome, Instant now,
                         std::string script = "");
  void on_cancel_outcome(const std::string& key, const Status& outcome);
  // `asked_at`: before the question was sent.
  void on_ends(const plan::LookUpEffect& asked, Instant asked_at,
               const Result<std::vector<JobEnd>>& ends);
  // A gateway through which agents reach Berth was cut off, or is back.
  enum class Feed { fresh, stale };
  void on_feed(Feed feed, Instant now);

  // Whether heartbeats could have arrived for a whole grace: leases may be expired now.
  bool may_expire(Instant now) const;

  // What the last step said of each service.
  const plan::Report& report() const { return report_; }
  const Tally& tally() const { return tally_; }
  const plan::Observed& observed() const { return observed_; }
  const plan::Policy& policy() const { return policy_; }

  // One route for each declared service, with the replicas that may take requests now: ready,
  // heard in time, not being stopped. Self-registered services follow.
  std::vector<route::Route> routes(LoadTable& loads, Instant now) const;

 private:
  Status commit(const plan::Changes& changes, Instant now);
  bool serves(const LeaseRecord& lease, Instant now) const;

  State& state_;
  plan::Policy policy_;
  plan::Observed observed_;
  plan::Report report_;
  Tally tally_;
  plan::Estimates estimates_;
  uint64_t estimated_at_ = 0;  // State::revision() of estimates_
  uint64_t published_at_ = 0;  // State::revision() at the last step
  Instant last_step_;
  Instant window_began_{};  // max_submits_per_tick holds for a second, however often one steps
  int submitted_in_window_ = 0;
  std::map<std::string, std::string> scripts_;  // to be stored with the next commit, by key
  store::Change deferred_;                      // plan::Flaw::intent_after_submit
};

}  // namespace berth::controller
