// The numbers that plan() decides by, and the one seam through which tests make it decide wrongly.
//
// Everything is a Duration or a count; the defaults are what a site gets that sets nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"

namespace berth::plan {

// Mistakes that the simulator plants, to prove that its oracles still see them. Never set
// elsewhere.
enum class Flaw {
  none,
  partial_absence,      // absence in a partial listing is taken for death
  intent_after_submit,  // the record is written after sbatch
  requeue_as_new,       // a requeued job is taken for a new one, and the replica for lost
  stale_listing,        // a listing asked for before the submit counts
  reused_id,            // a job is known by its id alone
  lost_cancel,          // a cancel whose reply was lost is never repeated
  stale_feed_expiry,    // leases expire although no heartbeat could have arrived
};

struct Policy {
  std::string installation;  // makes keys differ between installations on one cluster

  // Bounded blast radius.
  int max_submits_per_tick = 5;
  int max_cancels_per_tick = 20;
  int max_healthy_stops_percent = 20;  // by one plan, for reasons other than a person's wish
  int surge = 1;                       // live jobs above the target while replicas are replaced

  // What absence proves.
  Duration submit_grace = seconds(60);  // a submit whose reply was lost may still become a job
  int absent_polls = 2;                 // good listings without the job, when accounting answers
  int absent_polls_alone = 5;           // the same when accounting knows nothing
  Duration listing_stale_after = seconds(60);  // no submit and no cancel on older knowledge

  // Failed starts: base * 2^(n-1), at most cap, plus up to a quarter by the hash of the key.
  Duration start_backoff = seconds(5);
  Duration start_backoff_cap = minutes(5);
  Duration stable_after = minutes(10);  // ready for so long: earlier failures are forgotten

  // Refusals that waiting cures.
  Duration limit_backoff = seconds(30);  // submit limits
  Duration limit_backoff_cap = minutes(10);
  Duration unreachable_backoff = seconds(5);
  Duration unreachable_backoff_cap = seconds(60);

  // Handing over before the time limit.
  Duration gap_patience = minutes(1);  // a successor that is only just queued may still start
  Duration extend_by{0};  // more time asked of the scheduler when no successor is ready; 0: never
  Duration extend_before = minutes(3);  // the last safe instant
  Duration extend_retry = minutes(1);
  int max_extensions = 8;  // of one run

  // Stopping.
  Duration drain_margin = seconds(15);      // beyond the service's drain_grace, before scancel
  Duration cancel_knowledge = seconds(10);  // nothing is cancelled that was last seen earlier
  Duration cancel_retry = seconds(20);      // doubles up to the cap until the job has ended
  Duration cancel_retry_cap = minutes(2);
  int kill_after_attempts = 3;          // then SIGKILL at once
  Duration stuck_after = seconds(120);  // in COMPLETING: shown as stuck

  // Agents.
  Duration stall_after = seconds(5);   // between two steps: this process was not running
  Duration lease_grace = seconds(15);  // nothing expires before the feed was whole for so long
  Duration agent_silent_after = minutes(5);  // unhealthy with no word from the agent: replaced
  Duration unhealthy_after = minutes(15);    // unhealthy by the agent's own word: replaced
  Duration register_grace = minutes(10);     // over load_timeout, for an agent that never registers

  int max_excluded_nodes = 3;                  // nodes avoided after launch failures
  Duration provisional_end_for = minutes(10);  // how long accounting is asked for an end's time
  std::optional<uint32_t> own_uid;             // of the daemon, to tell its own cancels in reports

  Flaw flaw = Flaw::none;
};

}  // namespace berth::plan
