// The life of a replica as its agent sees it: a pure state machine, events in, commands out.
//
//   serving (loading, ready, unhealthy) -> deregistering -> draining -> stopping -> killing
//                                                                      -> reporting -> ended
//
// The shell (src/agent) reports what happened with on(), carries out the commands in the order
// given, and calls on(Timer) at next_wake(). A command's outcome comes back as a later event; a
// command is one try, repeating is decided here.
//
// The end, always in this order: (1) Berth hears first, by a heartbeat that says `draining`, so
// that nothing is routed here any more; (2) the front refuses new requests; (3) requests in flight
// finish, within the grace and the job's time; (4) the engine gets one SIGTERM, or none if the
// scheduler sent it one already; (5) what is left of its tree is killed; (6) the end is reported;
// (7) exit. An engine that dies by itself jumps to 5 and 6 at once, together.
//
// Guarantees (held by property tests): no SIGTERM before Berth was told or could not be told
// within `deregister_limit`; at most one SIGTERM; no exit before the end report was tried, if there
// was a lease, nor before the tree is gone or was killed for `kill_limit`; once the end has begun
// it never goes back; with a known job end everything is over before it, if the shell reports time
// truly. A lease that is lost, or a Berth that cannot be reached, never ends a healthy engine.
// Non-guarantees: that a request longer than the grace survives.
//
// Times: Instant is whatever steady time the shell gives; it must not go back. Ownership: value.
// Threading: none. Errors: none; nonsense events (an exit without a start) are ignored. Cost: O(1).
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/time.h"
#include "lifecycle/stop_cause.h"
#include "model/end_lead.h"
#include "model/lease.h"
#include "model/replica.h"

namespace berth::lifecycle {

struct LifecycleSettings {
  Duration load_timeout = minutes(30);
  Duration drain_grace = seconds(120);
  Duration engine_stop = kEngineStop;  // SIGTERM to SIGKILL, where there is time
  Duration end_margin = kEndMargin;
  Duration deregister_limit = seconds(3);  // how long Berth is given to hear of a drain
  Duration report_limit = seconds(5);      // ... and of the end
  Duration kill_limit = seconds(10);       // how long a tree that survives SIGKILL is waited for
  Duration probe_first = milliseconds(50);
  Duration probe_max = seconds(2);        // while loading; grows with the time waited
  Duration health_interval = seconds(5);  // once ready
  int unhealthy_after = 3;                // failed checks in a row
  // How long wrong answers are borne before the end: a server may add its routes late, but another
  // model, or no engine at all, will not become the right one. One that loads is not wrong.
  Duration wrong_patience = seconds(15);
  // When the job's script asked for SIGUSR1 before its limit; 0: not known, it means the end.
  Duration limit_warning{0};
  Duration kill_wait = seconds(30);  // the scheduler's SIGTERM to SIGKILL, until known
};

// --- events ---------------------------------------------------------------------------------

struct Begin {};  // first event: the front listens, the engine may be started
struct EngineStarted {};
struct EngineStartFailed {
  std::string why;
};
struct EngineExited {
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::string last_words;  // the tail of its output
};
struct TreeGone {};  // no process of the engine's tree is left
struct Probed {
  enum class Verdict {
    right,    // answered a request as the right model
    loading,  // not there yet: refused, or says that it loads
    wrong,    // answered, but not as it must
  };
  Verdict verdict = Verdict::loading;
  std::string detail;
};
enum class StopSignal { term, usr1, interrupt };
struct Signalled {
  StopSignal signal = StopSignal::term;
};
// The scheduler's SIGTERM went to every process of the job, the engine's included.
struct EngineAlreadyTold {};
// What is known of the job; absent members leave what was known.
struct JobSeen {
  std::optional<Instant> ends_at;
  std::optional<Duration> kill_wait;
  SchedulerWord word = SchedulerWord::none;
};
struct Registered {
  Duration heartbeat = seconds(3);
};
struct RegisterFailed {
  // impossible: the agent itself cannot register, whatever Berth says (no address, no port).
  enum class Kind { unreachable, refused, impossible };
  Kind kind = Kind::unreachable;
  std::string why;
};
struct HeartbeatAnswered {
  bool drain = false;
  std::string why;
};
struct HeartbeatFailed {
  enum class Kind { unreachable, unknown_lease };
  Kind kind = Kind::unreachable;
};
struct EndReported {
  enum class Outcome { done, failed };
  Outcome outcome = Outcome::done;
};
struct InFlight {
  int count = 0;
};
struct Timer {};

using Event = std::variant<Begin, EngineStarted, EngineStartFailed, EngineExited, TreeGone, Probed,
                           Signalled, EngineAlreadyTold, JobSeen, Registered, RegisterFailed,
                           HeartbeatAnswered, HeartbeatFailed, EndReported, InFlight, Timer>;

// --- commands -------------------------------------------------------------------------------

struct StartEngine {};
struct Probe {
  enum class Depth { full, light };  // light: is a ready engine still well
  Depth depth = Depth::full;
};
struct Register {};
struct Heartbeat {
  LeaseState state = LeaseState::loading;
  std::string detail;
};
struct CloseFront {};  // refuse new requests; those in flight go on
struct TermEngine {};  // one SIGTERM to each process of the tree
struct KillTree {};
struct AskScheduler {};  // why the signal? Answer by JobSeen, or not at all
struct ReportEnd {
  EndCause cause = EndCause::completed;
  std::string detail;
  std::optional<int> exit_code;
  std::optional<int> signal;
};
struct Exit {
  int status = 0;
};

using Command = std::variant<StartEngine, Probe, Register, Heartbeat, CloseFront, TermEngine,
                             KillTree, AskScheduler, ReportEnd, Exit>;

// For logs: "probe full", "heartbeat ready", "exit 12".
std::string describe(const Command& command);

enum class Phase { idle, serving, deregistering, draining, stopping, killing, reporting, ended };

class AgentLifecycle {
 public:
  explicit AgentLifecycle(LifecycleSettings settings) : settings_(settings) {}

  std::vector<Command> on(const Event& event, Instant now);
  // When on(Timer) is due next; nullopt once ended.
  std::optional<Instant> next_wake() const;

  Phase phase() const { return phase_; }
  LeaseState lease_state() const;
  bool was_ready() const { return was_ready_; }
  // Set once the end has begun.
  std::optional<StopVerdict> verdict() const;
  // When a planned end begins by the clock; nullopt when the job's end is not known.
  std::optional<Instant> planned_end() const;

 private:
  using Commands = std::vector<Command>;
  enum class Link { none, asked, registered };  // to Berth

  void handle(const Begin&);
  void handle(const EngineStarted&);
  void handle(const EngineStartFailed&);
  void handle(const EngineExited&);
  void handle(const TreeGone&);
  void handle(const Probed&);
  void handle(const Signalled&);
  void handle(const EngineAlreadyTold&);
  void handle(const JobSeen&);
  void handle(const Registered&);
  void handle(const RegisterFailed&);
  void handle(const HeartbeatAnswered&);
  void handle(const HeartbeatFailed&);
  void handle(const EndReported&);
  void handle(const InFlight&);
  void handle(const Timer&) {}

  void probed_loading(const Probed& probe);
  void probed_ready(const Probed& probe);
  bool only_warns(StopSignal signal) const;
  void begin_stop(StopReason reason, std::string words);
  void shorten(Instant hard_end);
  void go_draining();
  void go_stopping();
  void go_killing();
  void go_reporting();
  void run_timers();
  void run_serving_timers();
  void run_ending_timers();
  void try_report();
  void maybe_end();
  void heartbeat_now();
  void send_heartbeat();
  std::string heartbeat_detail() const;
  Duration end_lead() const;
  bool ending() const { return phase_ > Phase::serving; }
  bool reporting() const { return report_until_ != Instant{}; }  // the end is being reported
  Instant before_job_end() const;
  void close_front();
  void emit(Command command) { out_.push_back(std::move(command)); }

  LifecycleSettings settings_;
  Phase phase_ = Phase::idle;
  Instant now_{};
  Commands out_;

  // Job.
  Instant begun_at_{};
  std::optional<Instant> job_end_;
  SchedulerWord word_ = SchedulerWord::none;

  // Engine.
  std::optional<Instant> started_at_;
  bool starting_ = false;  // asked for, not yet known to run
  bool engine_running_ = false;
  bool tree_gone_ = true;
  bool engine_told_ = false;  // it has had a SIGTERM
  bool is_ready_ = false;
  bool was_ready_ = false;
  bool probing_ = false;
  int failed_checks_ = 0;
  std::optional<Instant> probe_at_;
  std::optional<Instant> wrong_since_;
  std::string probe_detail_;

  // Berth.
  Link link_ = Link::none;
  bool ever_registered_ = false;
  bool registering_ = false;
  Duration register_backoff_{200};
  std::optional<Instant> register_at_;
  Duration heartbeat_interval_ = seconds(3);
  bool heartbeat_in_flight_ = false;
  bool heartbeat_dirty_ = false;  // the state changed since the last one was sent
  bool drain_told_ = false;       // a heartbeat with `draining` is the one in flight
  std::optional<Instant> heartbeat_at_;

  // The end.
  std::optional<StopFacts> stop_;
  int in_flight_ = 0;
  Instant hard_end_{};  // all must be over
  Instant deregister_until_{};
  Instant drain_until_{};
  Instant kill_at_{};
  Instant next_kill_{};
  Instant give_up_tree_at_{};
  bool front_closed_ = false;
  bool report_in_flight_ = false;
  bool report_done_ = false;
  std::optional<Instant> report_at_;
  Instant report_until_{};
};

}  // namespace berth::lifecycle
