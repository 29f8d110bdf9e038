#include "lifecycle/agent_lifecycle.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace berth::lifecycle {
namespace {

constexpr Duration kRegisterBackoffMax = seconds(5);
constexpr Duration kHeartbeatRetry = milliseconds(500);
constexpr Duration kEndingRetry = milliseconds(200);
constexpr Duration kKillAgain = milliseconds(500);
// After the engine's main process has ended, the rest of its tree gets this long to follow.
constexpr Duration kLinger = seconds(2);

void keep_earliest(std::optional<Instant>& best, const std::optional<Instant>& candidate) {
  if (candidate && (!best || *candidate < *best)) best = candidate;
}

bool due(const std::optional<Instant>& at, Instant now) { return at && now >= *at; }

}  // namespace

std::vector<Command> AgentLifecycle::on(const Event& event, Instant now) {
  now_ = std::max(now_, now);
  out_.clear();
  if (phase_ == Phase::ended) return {};
  if (phase_ == Phase::idle && !std::holds_alternative<Begin>(event) &&
      !std::holds_alternative<JobSeen>(event))
    return {};
  std::visit([this](const auto& e) { handle(e); }, event);
  run_timers();
  return std::move(out_);
}

// --- starting and serving -------------------------------------------------------------------

void AgentLifecycle::handle(const Begin&) {
  if (phase_ != Phase::idle) return;
  phase_ = Phase::serving;
  begun_at_ = now_;
  starting_ = true;
  emit(StartEngine{});
  register_at_ = now_;
}

void AgentLifecycle::handle(const EngineStarted&) {
  if (started_at_) return;
  started_at_ = now_;
  starting_ = false;
  engine_running_ = true;
  tree_gone_ = false;
  if (phase_ == Phase::serving) probe_at_ = now_ + settings_.probe_first;
}

void AgentLifecycle::handle(const EngineStartFailed& e) {
  starting_ = false;
  if (!ending()) begin_stop(StopReason::could_not_start, e.why);
}

void AgentLifecycle::handle(const Probed& probe) {
  probing_ = false;
  if (phase_ != Phase::serving || !started_at_) return;
  if (probe.verdict == Probed::Verdict::right) {
    wrong_since_.reset();
    failed_checks_ = 0;
    probe_detail_.clear();
    probe_at_ = now_ + settings_.health_interval;
    if (!is_ready_) {
      is_ready_ = was_ready_ = true;
      heartbeat_now();
    }
    return;
  }
  probe_detail_ = probe.detail;
  if (was_ready_)
    probed_ready(probe);
  else
    probed_loading(probe);
}

void AgentLifecycle::probed_loading(const Probed& probe) {
  // Ask often at first, then about forty times in the time waited so far.
  Duration waited = now_ - *started_at_;
  probe_at_ = now_ + std::clamp(waited / 40, settings_.probe_first, settings_.probe_max);
  if (probe.verdict == Probed::Verdict::loading) {
    wrong_since_.reset();
  } else if (!wrong_since_) {
    wrong_since_ = now_;
  } else if (now_ - *wrong_since_ >= settings_.wrong_patience) {
    begin_stop(StopReason::wrong_model, probe.detail);
  }
}

void AgentLifecycle::probed_ready(const Probed&) {
  ++failed_checks_;
  // A failed check is repeated sooner than a good one.
  probe_at_ = now_ + std::min(settings_.health_interval,
                              std::max(settings_.health_interval / 5, settings_.probe_first));
  if (failed_checks_ < settings_.unhealthy_after || !is_ready_) return;
  is_ready_ = false;
  heartbeat_now();
}

void AgentLifecycle::handle(const JobSeen& e) {
  if (e.ends_at) job_end_ = e.ends_at;
  if (e.kill_wait && e.kill_wait->count() > 0) settings_.kill_wait = *e.kill_wait;
  if (e.ends_at && ending() && *job_end_ > now_) shorten(before_job_end());
  if (e.word == SchedulerWord::none) return;
  word_ = e.word;
  if (stop_) stop_->scheduler = e.word;
}

void AgentLifecycle::handle(const InFlight& e) { in_flight_ = std::max(0, e.count); }

// --- Berth ----------------------------------------------------------------------------------

void AgentLifecycle::handle(const Registered& e) {
  registering_ = false;
  link_ = Link::registered;
  ever_registered_ = true;
  register_backoff_ = milliseconds(200);
  register_at_.reset();
  if (e.heartbeat.count() > 0) heartbeat_interval_ = e.heartbeat;
  if (reporting()) return;  // the end report follows at once
  heartbeat_at_ = now_ + heartbeat_interval_;
  // A registration means `loading`; say at once what is true by now.
  if (lease_state() != LeaseState::loading) heartbeat_now();
}

void AgentLifecycle::handle(const RegisterFailed& e) {
  registering_ = false;
  bool final = e.kind != RegisterFailed::Kind::unreachable;
  if (!ever_registered_ && final) {
    link_ = Link::none;
    bool refused = e.kind == RegisterFailed::Kind::refused;
    if (!ending()) begin_stop(refused ? StopReason::refused : StopReason::could_not_start, e.why);
    return;
  }
  if (final && link_ == Link::asked) link_ = Link::none;
  if (ending()) return;
  register_at_ = now_ + register_backoff_;
  register_backoff_ = std::min(register_backoff_ * 2, kRegisterBackoffMax);
}

void AgentLifecycle::handle(const HeartbeatAnswered& e) {
  heartbeat_in_flight_ = false;
  if (drain_told_) {
    drain_told_ = false;
    if (phase_ == Phase::deregistering) go_draining();
  }
  if (e.drain && !ending()) begin_stop(StopReason::directive, e.why);
  if (heartbeat_dirty_ && !reporting()) heartbeat_at_ = now_;
}

void AgentLifecycle::handle(const HeartbeatFailed& e) {
  heartbeat_in_flight_ = false;
  bool told = std::exchange(drain_told_, false);
  if (e.kind == HeartbeatFailed::Kind::unknown_lease) {
    link_ = Link::none;
    heartbeat_at_.reset();
    if (ending()) {
      // Berth does not know this replica, so nothing is routed here.
      if (phase_ == Phase::deregistering) go_draining();
      return;
    }
    register_at_ = now_;
    return;
  }
  if (reporting()) return;
  heartbeat_at_ = now_ + (ending() ? kEndingRetry : std::min(kHeartbeatRetry, heartbeat_interval_));
  if (told) heartbeat_dirty_ = true;
}

void AgentLifecycle::heartbeat_now() {
  heartbeat_dirty_ = true;
  if (link_ == Link::registered && !heartbeat_in_flight_) heartbeat_at_ = now_;
}

void AgentLifecycle::send_heartbeat() {
  heartbeat_in_flight_ = true;
  heartbeat_dirty_ = false;
  drain_told_ = lease_state() == LeaseState::draining;
  heartbeat_at_ = now_ + heartbeat_interval_;
  emit(Heartbeat{lease_state(), heartbeat_detail()});
}

LeaseState AgentLifecycle::lease_state() const {
  if (ending()) return LeaseState::draining;
  if (is_ready_) return LeaseState::ready;
  return was_ready_ ? LeaseState::unhealthy : LeaseState::loading;
}

std::string AgentLifecycle::heartbeat_detail() const {
  switch (lease_state()) {
    case LeaseState::loading: {
      if (!started_at_) return "starting the engine";
      std::string text = fmt::format("loading for {} of at most {}", to_human(now_ - *started_at_),
                                     to_human(settings_.load_timeout));
      return probe_detail_.empty() ? text : text + ": " + probe_detail_;
    }
    case LeaseState::ready:
      return "";
    case LeaseState::unhealthy:
      return fmt::format("{} checks failed in a row: {}", failed_checks_, probe_detail_);
    case LeaseState::draining: {
      auto v = verdict();
      return v ? v->detail : "";
    }
  }
  return "";
}

// --- the end --------------------------------------------------------------------------------

// The warning of a limit that is known: the end begins by the clock. One that comes earlier than
// the limit's can is a preemption, or somebody's wish.
bool AgentLifecycle::only_warns(StopSignal signal) const {
  if (signal != StopSignal::usr1 || settings_.limit_warning.count() == 0 || !job_end_) return false;
  const Duration left = *job_end_ - now_;
  return left > end_lead() && left <= settings_.limit_warning + kWarningEarly;
}

void AgentLifecycle::handle(const Signalled& e) {
  if (!ending() && only_warns(e.signal)) {
    emit(AskScheduler{});  // the limit may have been shortened
    return;
  }
  if (!ending()) {
    StopReason reason = e.signal == StopSignal::term   ? StopReason::signal_term
                        : e.signal == StopSignal::usr1 ? StopReason::signal_usr1
                                                       : StopReason::signal_int;
    begin_stop(reason, "");
    emit(AskScheduler{});
  }
  // SIGKILL follows a SIGTERM of the scheduler's after its KillWait.
  if (e.signal != StopSignal::usr1) shorten(now_ + settings_.kill_wait - seconds(1));
}

void AgentLifecycle::handle(const EngineAlreadyTold&) { engine_told_ = true; }

void AgentLifecycle::handle(const EngineExited& e) {
  if (!engine_running_) return;
  engine_running_ = false;
  bool by_itself = !ending();
  if (by_itself) begin_stop(StopReason::engine_exited, e.last_words);
  stop_->exit_code = e.exit_code;
  stop_->signal = e.signal;
  close_front();  // nothing can be answered any more
  if (by_itself) {
    // Tell Berth and clean up, both at once.
    go_reporting();
    if (!tree_gone_) go_killing();
    return;
  }
  if (phase_ > Phase::stopping) return;
  Instant follow = now_ + kLinger;
  kill_at_ = phase_ == Phase::stopping ? std::min(kill_at_, follow) : std::min(follow, hard_end_);
  phase_ = Phase::stopping;
}

void AgentLifecycle::handle(const TreeGone&) {
  if (engine_running_ || !started_at_) return;
  tree_gone_ = true;
  if (phase_ == Phase::stopping || phase_ == Phase::killing) go_reporting();
}

Duration AgentLifecycle::end_lead() const {
  std::optional<Duration> run;
  if (job_end_) run = *job_end_ - begun_at_;
  return berth::end_lead(settings_.drain_grace, run, settings_.engine_stop, settings_.end_margin);
}

std::optional<Instant> AgentLifecycle::planned_end() const {
  if (!job_end_) return std::nullopt;
  return *job_end_ - end_lead();
}

void AgentLifecycle::begin_stop(StopReason reason, std::string words) {
  StopFacts facts;
  facts.reason = reason;
  facts.was_ready = was_ready_;
  if (job_end_) facts.time_left = *job_end_ - now_;
  facts.end_lead = end_lead();
  facts.scheduler = word_;
  facts.words = std::move(words);
  stop_ = std::move(facts);
  probe_at_.reset();

  Duration stop_budget = settings_.engine_stop;
  hard_end_ = now_ + settings_.drain_grace + stop_budget + settings_.end_margin;
  drain_until_ = now_ + settings_.drain_grace;
  phase_ = Phase::deregistering;
  deregister_until_ = now_ + settings_.deregister_limit;
  // When the job's time is up already, the scheduler's own wait is what is left (see Signalled).
  if (job_end_ && *job_end_ > now_) shorten(before_job_end());
  if (reason != StopReason::engine_exited) heartbeat_now();
}

Instant AgentLifecycle::before_job_end() const {
  return *job_end_ - std::min(settings_.end_margin, (*job_end_ - now_) / 4);
}

void AgentLifecycle::close_front() {
  if (!std::exchange(front_closed_, true)) emit(CloseFront{});
}

// Everything must be over by `hard_end`: the waits before it get their shares.
void AgentLifecycle::shorten(Instant hard_end) {
  if (hard_end >= hard_end_) return;
  hard_end_ = std::max(hard_end, now_);
  Duration left = hard_end_ - now_;
  Duration stop_share = std::min(settings_.engine_stop, left / 3);
  deregister_until_ = std::min(deregister_until_, now_ + left / 4);
  drain_until_ = std::min(drain_until_, hard_end_ - stop_share);
  if (phase_ == Phase::stopping) kill_at_ = std::min(kill_at_, hard_end_ - left / 6);
}

void AgentLifecycle::go_draining() {
  phase_ = Phase::draining;
  close_front();
}

void AgentLifecycle::go_stopping() {
  if (!engine_running_) {
    if (tree_gone_)
      go_reporting();
    else
      go_killing();
    return;
  }
  phase_ = Phase::stopping;
  Duration left = std::max(Duration(0), hard_end_ - now_);
  kill_at_ = now_ + std::min(settings_.engine_stop, left * 2 / 3);
  if (!std::exchange(engine_told_, true)) emit(TermEngine{});
}

void AgentLifecycle::go_killing() {
  phase_ = Phase::killing;
  give_up_tree_at_ = std::min(now_ + settings_.kill_limit, std::max(hard_end_, now_ + seconds(1)));
  next_kill_ = now_;
}

void AgentLifecycle::go_reporting() {
  if (!reporting()) {
    report_until_ = std::min(now_ + settings_.report_limit, std::max(hard_end_, now_ + seconds(1)));
    report_at_ = now_;
  }
  phase_ = Phase::reporting;
  heartbeat_at_.reset();
}

void AgentLifecycle::handle(const EndReported& e) {
  report_in_flight_ = false;
  if (e.outcome == EndReported::Outcome::done)
    report_done_ = true;
  else
    report_at_ = now_ + kEndingRetry;
}

void AgentLifecycle::try_report() {
  if (!reporting() || report_done_ || report_in_flight_ || !due(report_at_, now_)) return;
  if (link_ != Link::registered) {
    // Either the answer to a registration is on its way, and then there is an end to report, or
    // Berth does not know this replica.
    if (!registering_) report_done_ = true;
    return;
  }
  StopVerdict v = judge_stop(*stop_);
  report_in_flight_ = true;
  report_at_.reset();
  emit(ReportEnd{v.cause, v.detail, stop_->exit_code, stop_->signal});
}

void AgentLifecycle::maybe_end() {
  if (phase_ != Phase::reporting) return;
  bool report_over = report_done_ || now_ >= report_until_;
  if (!report_over) return;
  phase_ = Phase::ended;
  emit(Exit{judge_stop(*stop_).exit_status});
}

std::optional<StopVerdict> AgentLifecycle::verdict() const {
  if (!stop_) return std::nullopt;
  return judge_stop(*stop_);
}

// --- timers ---------------------------------------------------------------------------------

void AgentLifecycle::run_timers() {
  if (phase_ == Phase::serving) run_serving_timers();
  if (due(heartbeat_at_, now_) && link_ == Link::registered && !heartbeat_in_flight_)
    send_heartbeat();
  if (ending()) run_ending_timers();
}

void AgentLifecycle::run_serving_timers() {
  if (due(register_at_, now_) && !registering_ && link_ != Link::registered) {
    registering_ = true;
    link_ = Link::asked;
    register_at_.reset();
    emit(Register{});
  }
  if (due(planned_end(), now_)) {
    begin_stop(StopReason::job_end_near, "");
    return;
  }
  if (started_at_ && !was_ready_ && now_ - *started_at_ >= settings_.load_timeout) {
    begin_stop(StopReason::load_timeout,
               fmt::format("load_timeout: waited {}, configured {}{}",
                           to_human(now_ - *started_at_), to_human(settings_.load_timeout),
                           probe_detail_.empty() ? "" : "; last answer: " + probe_detail_));
    return;
  }
  if (due(probe_at_, now_) && !probing_) {
    probing_ = true;
    probe_at_.reset();
    emit(Probe{is_ready_ ? Probe::Depth::light : Probe::Depth::full});
  }
}

void AgentLifecycle::run_ending_timers() {
  bool unreachable = link_ == Link::none || (link_ == Link::asked && !registering_);
  if (phase_ == Phase::deregistering && (now_ >= deregister_until_ || unreachable)) go_draining();
  bool drained = in_flight_ == 0 && !starting_;
  if (phase_ == Phase::draining && (drained || now_ >= drain_until_)) go_stopping();
  if (phase_ == Phase::stopping && now_ >= kill_at_) go_killing();
  if (phase_ == Phase::killing) {
    if (now_ >= next_kill_) {
      emit(KillTree{});
      next_kill_ = now_ + kKillAgain;
    }
    if (now_ >= give_up_tree_at_) go_reporting();
  }
  try_report();
  maybe_end();
}

std::optional<Instant> AgentLifecycle::next_wake() const {
  std::optional<Instant> at;
  if (phase_ == Phase::ended || phase_ == Phase::idle) return at;
  if (link_ == Link::registered && !heartbeat_in_flight_) keep_earliest(at, heartbeat_at_);
  switch (phase_) {
    case Phase::serving:
      if (!registering_ && link_ != Link::registered) keep_earliest(at, register_at_);
      if (!probing_) keep_earliest(at, probe_at_);
      keep_earliest(at, planned_end());
      if (started_at_ && !was_ready_) keep_earliest(at, *started_at_ + settings_.load_timeout);
      break;
    case Phase::deregistering:
      keep_earliest(at, deregister_until_);
      break;
    case Phase::draining:
      keep_earliest(at, drain_until_);
      break;
    case Phase::stopping:
      keep_earliest(at, kill_at_);
      break;
    case Phase::killing:
      keep_earliest(at, next_kill_);
      keep_earliest(at, give_up_tree_at_);
      break;
    case Phase::reporting:
      keep_earliest(at, report_until_);
      break;
    case Phase::idle:
    case Phase::ended:
      break;
  }
  if (reporting() && !report_done_ && !report_in_flight_ && !registering_)
    keep_earliest(at, report_at_);
  return at;
}

std::string describe(const Command& command) {
  struct Describe {
    std::string operator()(const StartEngine&) { return "start engine"; }
    std::string operator()(const Probe& c) {
      return c.depth == Probe::Depth::full ? "probe full" : "probe light";
    }
    std::string operator()(const Register&) { return "register"; }
    std::string operator()(const Heartbeat& c) {
      return fmt::format("heartbeat {}", to_string(c.state));
    }
    std::string operator()(const CloseFront&) { return "close front"; }
    std::string operator()(const TermEngine&) { return "term engine"; }
    std::string operator()(const KillTree&) { return "kill tree"; }
    std::string operator()(const AskScheduler&) { return "ask scheduler"; }
    std::string operator()(const ReportEnd& c) {
      return fmt::format("report {}", to_string(c.cause));
    }
    std::string operator()(const Exit& c) { return fmt::format("exit {}", c.status); }
  };
  return std::visit(Describe{}, command);
}

}  // namespace berth::lifecycle
