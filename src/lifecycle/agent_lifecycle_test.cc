#include "lifecycle/agent_lifecycle.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace berth::lifecycle {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const Instant kStart = from_ms(1'800'000'000'000);

// Feeds events at given times and remembers the commands as text, such as "0ms register".
class Bench {
 public:
  explicit Bench(LifecycleSettings settings = {}) : machine(settings) {}

  std::vector<std::string> at(Duration t, const Event& event) {
    return run(machine.on(event, kStart + t));
  }
  // Lets timers fire until `t`.
  std::vector<std::string> until(Duration t) {
    std::vector<std::string> seen;
    for (int guard = 0; guard < 10'000; ++guard) {
      auto wake = machine.next_wake();
      if (!wake || *wake > kStart + t) break;
      for (std::string& text : run(machine.on(Timer{}, *wake))) seen.push_back(std::move(text));
    }
    return seen;
  }
  // Starts the engine and registers; the engine is ready.
  void become_ready() {
    at(Duration(0), Begin{});
    at(Duration(10), EngineStarted{});
    at(Duration(20), Registered{heartbeat});
    at(Duration(100), Timer{});
    at(Duration(110), Probed{Probed::Verdict::right, ""});
    at(Duration(120), HeartbeatAnswered{});
  }

  AgentLifecycle machine;
  Duration heartbeat = hours(10);  // so that none is in the way of what a test looks at
  std::vector<Command> all;

 private:
  std::vector<std::string> run(const std::vector<Command>& commands) {
    std::vector<std::string> texts;
    for (const Command& c : commands) {
      all.push_back(c);
      texts.push_back(describe(c));
    }
    return texts;
  }
};

TEST(AgentLifecycle, StartsRegistersProbesAndSaysReadyAtOnce) {
  Bench b;
  EXPECT_THAT(b.at(Duration(0), Begin{}), ElementsAre("start engine", "register"));
  EXPECT_THAT(b.at(Duration(10), EngineStarted{}), IsEmpty());
  EXPECT_THAT(b.at(Duration(20), Registered{}), IsEmpty());
  EXPECT_THAT(b.until(Duration(60)), ElementsAre("probe full"));
  EXPECT_THAT(b.at(Duration(61), Probed{Probed::Verdict::loading, "refused"}), IsEmpty());
  EXPECT_THAT(b.until(Duration(111)), ElementsAre("probe full"));
  EXPECT_EQ(b.machine.lease_state(), LeaseState::loading);
  EXPECT_THAT(b.at(Duration(112), Probed{Probed::Verdict::right, ""}),
              ElementsAre("heartbeat ready"));
  EXPECT_EQ(b.machine.lease_state(), LeaseState::ready);
}

TEST(AgentLifecycle, ReadyBeforeItIsRegisteredIsSaidWithTheRegistration) {
  Bench b;
  b.at(Duration(0), Begin{});
  b.at(Duration(10), EngineStarted{});
  b.until(Duration(60));
  EXPECT_THAT(b.at(Duration(70), Probed{Probed::Verdict::right, ""}), IsEmpty());
  EXPECT_THAT(b.at(Duration(80), Registered{}), ElementsAre("heartbeat ready"));
}

TEST(AgentLifecycle, HeartbeatsWhileOneIsInFlightAreNotDoubledButNoneIsLost) {
  Bench b;
  b.at(Duration(0), Begin{});
  b.at(Duration(10), EngineStarted{});
  b.at(Duration(20), Registered{seconds(1)});
  b.until(Duration(60));
  b.at(Duration(61), Probed{Probed::Verdict::loading, ""});
  b.at(milliseconds(1020), Timer{});  // the heartbeat `loading` leaves; so does a probe
  EXPECT_THAT(b.at(milliseconds(1030), Probed{Probed::Verdict::right, ""}), IsEmpty());
  EXPECT_THAT(b.at(milliseconds(1040), HeartbeatAnswered{}), ElementsAre("heartbeat ready"));
}

// A05: slow loading is never signalled before its limit, and the message has both values.
TEST(AgentLifecycle, LoadTimeoutIsExactAndNamesElapsedAndConfigured) {
  LifecycleSettings s;
  s.load_timeout = seconds(18);
  Bench b(s);
  b.at(Duration(0), Begin{});
  b.at(Duration(0), EngineStarted{});
  b.at(Duration(5), Registered{});
  auto answer = [&](Instant wake) {
    for (const Command& c : b.machine.on(Timer{}, wake)) {
      b.all.push_back(c);
      if (std::holds_alternative<Probe>(c))
        b.machine.on(Probed{Probed::Verdict::loading, "connection refused"}, wake);
      if (std::holds_alternative<Heartbeat>(c) && b.machine.phase() == Phase::serving)
        b.machine.on(HeartbeatAnswered{}, wake);
    }
  };
  while (b.machine.phase() == Phase::serving) answer(*b.machine.next_wake());
  auto v = b.machine.verdict();
  ASSERT_TRUE(v);
  EXPECT_EQ(v->cause, EndCause::load_timeout);
  EXPECT_EQ(v->exit_status, kExitLoadTimeout);
  EXPECT_THAT(v->detail, HasSubstr("waited 18s, configured 18s"));
  EXPECT_THAT(v->detail, HasSubstr("connection refused"));
}

TEST(AgentLifecycle, ReadyJustBeforeTheLoadTimeoutIsReady) {
  LifecycleSettings s;
  s.load_timeout = seconds(18);
  Bench b(s);
  b.at(Duration(0), Begin{});
  b.at(Duration(0), EngineStarted{});
  b.at(Duration(5), Registered{});
  b.until(Duration(60));
  b.at(milliseconds(15'000), Probed{Probed::Verdict::right, ""});
  b.at(milliseconds(15'001), HeartbeatAnswered{});
  auto later = b.until(milliseconds(17'999));
  later = b.until(milliseconds(19'000));
  EXPECT_EQ(b.machine.lease_state(), LeaseState::ready);
}

TEST(AgentLifecycle, ADrainGoesInTheOneOrder) {
  Bench b;
  b.become_ready();
  b.at(seconds(10), InFlight{1});
  EXPECT_THAT(b.at(seconds(11), Signalled{StopSignal::usr1}),
              ElementsAre("ask scheduler", "heartbeat draining"));
  EXPECT_THAT(b.at(milliseconds(11'010), HeartbeatAnswered{}), ElementsAre("close front"));
  EXPECT_THAT(b.until(seconds(12)), IsEmpty());
  EXPECT_EQ(b.machine.phase(), Phase::draining);
  EXPECT_THAT(b.at(seconds(13), InFlight{0}), ElementsAre("term engine"));
  EXPECT_THAT(b.at(seconds(14), EngineExited{0, std::nullopt, ""}), IsEmpty());
  EXPECT_THAT(b.at(milliseconds(14'010), TreeGone{}), ElementsAre("report completed"));
  EXPECT_THAT(b.at(milliseconds(14'020), EndReported{}), ElementsAre("exit 0"));
  EXPECT_EQ(b.machine.phase(), Phase::ended);
  EXPECT_EQ(b.machine.next_wake(), std::nullopt);
}

TEST(AgentLifecycle, TheWarningOfAKnownLimitIsNoEndYet) {
  LifecycleSettings settings;
  settings.limit_warning = seconds(30);
  settings.drain_grace = seconds(20);  // the planned end takes 40 s
  for (int left_s : {90, 60, 41, 39, 200}) {
    Bench b(settings);
    b.become_ready();
    b.at(seconds(10), JobSeen{kStart + seconds(300)});
    auto said = b.at(seconds(300 - left_s), Signalled{StopSignal::usr1});
    bool warning = left_s > 40 && left_s <= 95;
    EXPECT_EQ(b.machine.phase(), warning ? Phase::serving : Phase::deregistering) << left_s;
    EXPECT_THAT(said, Contains("ask scheduler"));
  }
  // The answer: it was shortened.
  Bench b(settings);
  b.become_ready();
  b.at(seconds(10), JobSeen{kStart + seconds(300)});
  b.at(seconds(220), Signalled{StopSignal::usr1});
  b.at(seconds(221), JobSeen{kStart + seconds(250)});
  b.until(seconds(222));
  EXPECT_NE(b.machine.phase(), Phase::serving);
}

TEST(AgentLifecycle, ADirectiveDrainsAndIsAPlannedEnd) {
  Bench b;
  b.become_ready();
  b.until(seconds(4));
  EXPECT_THAT(b.at(seconds(5), HeartbeatAnswered{true, "scaled down to 1"}),
              ElementsAre("heartbeat draining"));
  EXPECT_EQ(b.machine.verdict()->cause, EndCause::stopped);
  EXPECT_THAT(b.machine.verdict()->detail, HasSubstr("scaled down to 1"));
  EXPECT_EQ(b.machine.verdict()->exit_status, 0);
}

TEST(AgentLifecycle, RequestsOverTheGraceDoNotHoldTheEnd) {
  LifecycleSettings s;
  s.drain_grace = seconds(20);
  s.engine_stop = seconds(4);
  Bench b(s);
  b.become_ready();
  b.at(seconds(5), InFlight{2});
  b.until(seconds(6));
  b.at(seconds(6), HeartbeatAnswered{true, "stop"});
  b.at(seconds(6), HeartbeatAnswered{});
  EXPECT_THAT(b.until(seconds(25)), Not(Contains("term engine")));
  EXPECT_THAT(b.until(seconds(26)), Contains("term engine"));
  EXPECT_THAT(b.until(milliseconds(29'900)), Not(Contains("kill tree")));
  EXPECT_THAT(b.until(milliseconds(30'100)), Contains("kill tree"));
}

TEST(AgentLifecycle, AnEngineThatDiesIsReportedAtOnceWithItsLastWords) {
  Bench b;
  b.become_ready();
  EXPECT_THAT(b.at(seconds(9), EngineExited{std::nullopt, 11, "CUDA error"}),
              ElementsAre("close front", "kill tree", "report crashed"));
  const auto& report = std::get<ReportEnd>(b.all.back());
  EXPECT_EQ(report.signal, 11);
  EXPECT_THAT(report.detail, HasSubstr("CUDA error"));
  EXPECT_THAT(b.at(seconds(9), TreeGone{}), IsEmpty());
  EXPECT_THAT(b.at(seconds(9), EndReported{}), ElementsAre("exit 12"));
}

TEST(AgentLifecycle, AnEngineThatNeverLoadedFailedToLoad) {
  Bench b;
  b.at(Duration(0), Begin{});
  b.at(Duration(10), EngineStarted{});
  b.at(Duration(20), Registered{});
  EXPECT_THAT(b.at(seconds(2), EngineExited{1, std::nullopt, "no such file"}),
              ElementsAre("close front", "kill tree", "report failed_to_load"));
  b.at(seconds(2), EndReported{});
  EXPECT_THAT(b.at(seconds(2), TreeGone{}), ElementsAre("exit 10"));
}

TEST(AgentLifecycle, AnEngineThatDiesWhileTheRegistrationIsUnderWayIsReportedAfterIt) {
  Bench b;
  b.at(Duration(0), Begin{});
  b.at(Duration(10), EngineStarted{});
  EXPECT_THAT(b.at(Duration(15), EngineExited{1, std::nullopt, ""}),
              ElementsAre("close front", "kill tree"));
  EXPECT_THAT(b.at(Duration(16), TreeGone{}), IsEmpty());
  EXPECT_THAT(b.at(Duration(30), Registered{}), ElementsAre("report failed_to_load"));
  EXPECT_THAT(b.at(Duration(40), EndReported{}), ElementsAre("exit 10"));
}

// The scheduler's own SIGTERM reached the engine: a second one would be taken for "at once".
TEST(AgentLifecycle, NoSecondTermWhenTheSchedulerSentOneToAll) {
  Bench b;
  b.become_ready();
  b.at(seconds(10), InFlight{1});
  b.at(seconds(11), Signalled{StopSignal::term});
  b.at(seconds(11), EngineAlreadyTold{});
  b.at(milliseconds(11'010), HeartbeatAnswered{});
  EXPECT_THAT(b.at(seconds(12), InFlight{0}), Not(Contains("term engine")));
  EXPECT_EQ(b.machine.phase(), Phase::stopping);
  b.at(seconds(12), EngineExited{0, std::nullopt, ""});
  EXPECT_THAT(b.at(seconds(12), TreeGone{}), ElementsAre("report cancelled"));
}

TEST(AgentLifecycle, TermIsBoundedByTheSchedulersKillWait) {
  LifecycleSettings s;
  s.kill_wait = seconds(6);
  Bench b(s);
  b.become_ready();
  b.at(seconds(10), InFlight{1});
  b.at(seconds(11), Signalled{StopSignal::term});
  b.at(milliseconds(11'010), HeartbeatAnswered{});
  auto seen = b.until(milliseconds(16'000));  // SIGKILL would come at 17 s
  EXPECT_THAT(seen, Contains("term engine"));
  EXPECT_THAT(seen, Contains("kill tree"));
}

TEST(AgentLifecycle, ASecondTermShortensADrainThatHasBegun) {
  Bench b;
  b.become_ready();
  b.at(seconds(10), InFlight{1});
  b.at(seconds(11), Signalled{StopSignal::usr1});
  b.at(seconds(11), HeartbeatAnswered{});
  b.at(seconds(12), JobSeen{std::nullopt, seconds(6), SchedulerWord::none});
  EXPECT_THAT(b.until(seconds(20)), Not(Contains("term engine")));
  b.at(seconds(20), Signalled{StopSignal::term});
  EXPECT_THAT(b.until(seconds(25)), Contains("kill tree"));
  EXPECT_EQ(b.machine.verdict()->exit_status, 0);  // the first reason stays
}

TEST(AgentLifecycle, LeavesBeforeTheJobsEnd) {
  Bench b;
  b.at(Duration(0), JobSeen{kStart + hours(1)});
  b.become_ready();
  // 120 s grace + 15 s stop + 5 s margin.
  EXPECT_EQ(*b.machine.planned_end(), kStart + hours(1) - seconds(140));
  b.machine.on(Timer{}, kStart + hours(1) - seconds(141));
  EXPECT_EQ(b.machine.phase(), Phase::serving);
  b.machine.on(Timer{}, kStart + hours(1) - seconds(140));
  ASSERT_TRUE(b.machine.verdict());
  EXPECT_EQ(b.machine.verdict()->cause, EndCause::completed);
}

TEST(AgentLifecycle, AShortJobServesForMostOfItsTime) {
  Bench b;
  b.at(Duration(0), JobSeen{kStart + seconds(60)});
  b.become_ready();
  EXPECT_EQ(*b.machine.planned_end(), kStart + seconds(40));
}

TEST(AgentLifecycle, ALostLeaseNeverEndsTheEngine) {
  Bench b;
  b.heartbeat = seconds(3);
  b.become_ready();
  b.at(seconds(4), Timer{});
  EXPECT_THAT(b.at(seconds(4), HeartbeatFailed{HeartbeatFailed::Kind::unknown_lease}),
              ElementsAre("register"));
  Duration t = seconds(4);
  for (int i = 0; i < 200; ++i) {
    b.at(t, RegisterFailed{
                i % 2 ? RegisterFailed::Kind::refused : RegisterFailed::Kind::unreachable, "no"});
    t += seconds(6);
    auto seen = b.until(t);
    EXPECT_THAT(seen, Contains("register"));
    if (std::ranges::find(seen, "probe light") != seen.end())
      b.at(t, Probed{Probed::Verdict::right, ""});
  }
  EXPECT_EQ(b.machine.phase(), Phase::serving);
  EXPECT_THAT(b.at(t, Registered{}), Contains("heartbeat ready"));
}

TEST(AgentLifecycle, ARefusedFirstRegistrationEnds) {
  Bench b;
  b.at(Duration(0), Begin{});
  b.at(Duration(10), EngineStarted{});
  EXPECT_THAT(b.at(Duration(20), RegisterFailed{RegisterFailed::Kind::refused, "not your service"}),
              ElementsAre("close front", "term engine"));
  b.at(Duration(30), EngineExited{0, std::nullopt, ""});
  EXPECT_THAT(b.at(Duration(31), TreeGone{}), ElementsAre("exit 13"));
}

TEST(AgentLifecycle, WrongAnswersAreBorneForAWhileOnly) {
  Bench b;
  b.at(Duration(0), Begin{});
  b.at(Duration(10), EngineStarted{});
  b.at(Duration(20), Registered{});
  b.at(Duration(70), Timer{});
  b.at(Duration(80), Probed{Probed::Verdict::wrong, "serves \"other\""});
  b.at(seconds(14), Timer{});
  b.at(seconds(14), Probed{Probed::Verdict::wrong, "serves \"other\""});
  EXPECT_EQ(b.machine.phase(), Phase::serving);
  b.at(seconds(16), Timer{});
  b.at(seconds(16), Probed{Probed::Verdict::wrong, "serves \"other\""});
  ASSERT_TRUE(b.machine.verdict());
  EXPECT_EQ(b.machine.verdict()->cause, EndCause::failed_to_load);
  EXPECT_THAT(b.machine.verdict()->detail, HasSubstr("other"));
}

TEST(AgentLifecycle, FailedChecksMakeItUnhealthyAndAGoodOneReady) {
  Bench b;
  b.become_ready();
  Duration t = seconds(6);
  for (int i = 0; i < 3; ++i) {
    b.until(t);
    b.at(t, Probed{Probed::Verdict::loading, "no answer in 10s"});
    t += seconds(2);
  }
  EXPECT_EQ(b.machine.lease_state(), LeaseState::unhealthy);
  b.until(t);
  b.at(t, Probed{Probed::Verdict::right, ""});
  EXPECT_EQ(b.machine.lease_state(), LeaseState::ready);
}

TEST(AgentLifecycle, AnUnreachableBerthDoesNotHoldADrainForLong) {
  Bench b;
  b.become_ready();
  b.at(seconds(2), Signalled{StopSignal::interrupt});
  b.at(milliseconds(2'100), HeartbeatFailed{});
  EXPECT_THAT(b.until(milliseconds(2'400)), ElementsAre("heartbeat draining"));
  EXPECT_THAT(b.until(seconds(6)), Contains("term engine"));
  b.at(seconds(6), EngineExited{0, std::nullopt, ""});
  EXPECT_THAT(b.at(seconds(6), TreeGone{}), Contains("report cancelled"));
  b.at(seconds(6), EndReported{EndReported::Outcome::failed});
  EXPECT_THAT(b.until(seconds(7)), Contains("report cancelled"));
  b.at(seconds(7), EndReported{EndReported::Outcome::failed});
  auto seen = b.until(seconds(12));
  for (int i = 0; i < 40 && b.machine.phase() != Phase::ended; ++i) {
    b.at(seconds(12), EndReported{EndReported::Outcome::failed});
    b.until(seconds(13));
  }
  EXPECT_EQ(b.machine.phase(), Phase::ended);
}

// --- properties: a random world around the machine --------------------------------------------

// Answers commands after random delays, drops Berth for a while, sends signals, kills the engine,
// and holds every command to the promises of the header.
class World {
 public:
  explicit World(uint64_t seed) : random_(seed), machine_(settings()) {
    if (chance(70)) {
      job_end_ = kStart + seconds(pick(60, 900));
      schedule(Duration(pick(0, 3000)), JobSeen{job_end_, seconds(pick(3, 40))});
    }
    schedule(Duration(0), Begin{});
    engine_obeys_ = chance(70);
    engine_loads_in_ = seconds(pick(0, 60));
    berth_from_ = kStart + seconds(chance(30) ? pick(0, 100) : 0);
    berth_until_ = kStart + seconds(chance(30) ? pick(20, 400) : 100'000);
    if (chance(60)) schedule(seconds(pick(0, 500)), Signalled{StopSignal(pick(0, 2))});
    if (chance(30)) schedule(seconds(pick(0, 500)), Signalled{StopSignal::term});
    if (chance(20)) schedule(seconds(pick(0, 500)), EngineAlreadyTold{});
    if (chance(30)) dies_at_ = seconds(pick(0, 500));
    if (chance(40)) directive_at_ = kStart + seconds(pick(0, 500));
    for (int i = pick(0, 30); i > 0; --i)
      schedule(Duration(pick(0, 500'000)), InFlight{pick(0, 3)});
    // Every run is told to end at last.
    schedule(seconds(1500), Signalled{StopSignal::term});
  }

  void run() {
    for (int step = 0; step < 100'000 && !exited_; ++step) {
      auto wake = machine_.next_wake();
      if (!wake && events_.empty()) break;
      Event event = Timer{};
      if (!events_.empty() && (!wake || events_.begin()->first <= *wake)) {
        now_ = std::max(now_, events_.begin()->first);
        event = events_.begin()->second;
        events_.erase(events_.begin());
        if (!note(event)) continue;
      } else {
        idle_wakes_ = *wake > now_ ? 0 : idle_wakes_ + 1;
        ASSERT_LT(idle_wakes_, 5) << "a timer that is due for ever: the agent would spin";
        now_ = std::max(now_, *wake);
      }
      for (const Command& c : machine_.on(event, now_)) obey(c);
      check();
    }
    EXPECT_TRUE(exited_) << "never exits; in phase " << static_cast<int>(machine_.phase());
  }

 private:
  static LifecycleSettings settings() {
    LifecycleSettings s;
    s.load_timeout = seconds(120);
    s.drain_grace = seconds(60);
    return s;
  }
  int pick(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random_); }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  void schedule(Duration in, Event event) { events_.emplace(now_ + in, std::move(event)); }
  bool berth_answers() const { return now_ >= berth_from_ && now_ < berth_until_; }

  // What the world itself must know of an event that is about to be delivered. False: it is moot.
  bool note(const Event& event) {
    if (std::holds_alternative<Registered>(event)) leased_ = true;
    if (const auto* failed = std::get_if<HeartbeatFailed>(&event)) {
      beat_in_flight_ = false;
      if (failed->kind == HeartbeatFailed::Kind::unknown_lease) leased_ = false;
    }
    if (std::holds_alternative<HeartbeatAnswered>(event)) {
      beat_in_flight_ = false;
      if (drain_said_) berth_knows_ = true;
    }
    if (const auto* signal = std::get_if<Signalled>(&event))
      hurried_ = hurried_ || signal->signal != StopSignal::usr1;
    hurried_ = hurried_ || (job_end_ && *job_end_ - now_ < seconds(20));
    if (std::holds_alternative<EngineExited>(event)) return std::exchange(alive_, false);
    if (std::holds_alternative<TreeGone>(event)) return std::exchange(tree_, false);
    return true;
  }

  struct Obey {
    World& w;
    void operator()(const StartEngine&) {
      EXPECT_EQ(++w.starts_, 1);
      if (w.chance(5)) return w.schedule(Duration(w.pick(1, 50)), EngineStartFailed{"no file"});
      w.schedule(Duration(w.pick(1, 50)), EngineStarted{});
      w.alive_ = w.tree_ = true;
      w.ready_at_ = w.now_ + w.engine_loads_in_;
      if (w.dies_at_) w.end_engine(Duration(60) + *w.dies_at_, 1);
    }
    void operator()(const Probe&) {
      auto v = w.now_ >= w.ready_at_ && !w.chance(10) ? Probed::Verdict::right
                                                      : Probed::Verdict::loading;
      if (w.chance(2)) v = Probed::Verdict::wrong;
      w.schedule(Duration(w.pick(1, 3000)), Probed{v, "x"});
    }
    void operator()(const Register&) {
      if (w.berth_answers() && w.chance(90))
        return w.schedule(Duration(w.pick(1, 2000)), Registered{});
      auto kind = w.chance(5) ? RegisterFailed::Kind::refused : RegisterFailed::Kind::unreachable;
      w.schedule(Duration(w.pick(1, 2000)), RegisterFailed{kind, "no"});
    }
    void operator()(const Heartbeat& beat) {
      EXPECT_TRUE(w.leased_) << "a heartbeat without a lease";
      EXPECT_FALSE(std::exchange(w.beat_in_flight_, true)) << "two heartbeats at once";
      EXPECT_TRUE(!w.drain_said_ || beat.state == LeaseState::draining) << "went back";
      if (beat.state == LeaseState::draining) w.drain_said_ = true;
      bool drain = w.directive_at_ && w.now_ >= *w.directive_at_;
      if (!w.berth_answers() || w.chance(10))
        w.schedule(Duration(w.pick(1, 2000)), HeartbeatFailed{});
      else if (w.chance(3))
        w.schedule(Duration(w.pick(1, 500)), HeartbeatFailed{HeartbeatFailed::Kind::unknown_lease});
      else
        w.schedule(Duration(w.pick(1, 1000)), HeartbeatAnswered{drain, "asked"});
    }
    void operator()(const CloseFront&) { EXPECT_FALSE(std::exchange(w.closed_, true)); }
    void operator()(const TermEngine&) {
      EXPECT_EQ(++w.terms_, 1) << "more than one SIGTERM";
      EXPECT_TRUE(w.closed_);
      // Told, or nobody to tell, or it could not be told in the time there was.
      Duration limit = w.hurried_ ? milliseconds(500) : seconds(3);
      bool limit_over = w.began_at_ && w.now_ - *w.began_at_ >= limit;
      EXPECT_TRUE(w.berth_knows_ || !w.leased_ || limit_over) << "SIGTERM before Berth was told";
      if (w.engine_obeys_) w.end_engine(Duration(w.pick(10, 20'000)), w.pick(1, 3000));
    }
    void operator()(const KillTree&) {
      EXPECT_TRUE(w.closed_);
      w.killed_ = true;
      w.end_engine(Duration(w.pick(1, 100)), w.pick(1, 100));
    }
    void operator()(const AskScheduler&) {
      if (w.chance(50))
        w.schedule(Duration(w.pick(1, 3000)),
                   JobSeen{std::nullopt, std::nullopt, SchedulerWord(w.pick(0, 3))});
    }
    void operator()(const ReportEnd& report) {
      EXPECT_TRUE(w.leased_);
      EXPECT_FALSE(report.detail.empty());
      ++w.reports_;
      auto outcome = w.berth_answers() && w.chance(90) ? EndReported::Outcome::done
                                                       : EndReported::Outcome::failed;
      w.schedule(Duration(w.pick(1, 2000)), EndReported{outcome});
    }
    void operator()(const Exit& exit) {
      w.exited_ = true;
      EXPECT_GE(exit.status, 0);
      EXPECT_LT(exit.status, 128);
      EXPECT_TRUE(!w.leased_ || w.reports_ > 0) << "exit without an end report";
      EXPECT_TRUE(!w.tree_ || w.killed_) << "exit leaves processes";
      // In time for the scheduler, where there was time to begin with.
      bool time_enough = w.job_end_ && w.began_at_ && *w.job_end_ - *w.began_at_ > seconds(19);
      EXPECT_TRUE(!time_enough || w.now_ <= *w.job_end_) << "later than the job's end";
    }
  };

  void obey(const Command& command) {
    EXPECT_FALSE(exited_) << "a command after the exit: " << describe(command);
    std::visit(Obey{*this}, command);
  }

  // Ends the engine's main process and its tree, unless that is under way already.
  void end_engine(Duration in, int tree_later_ms) {
    schedule(in, EngineExited{0, std::nullopt, "boom"});
    schedule(in + Duration(tree_later_ms), TreeGone{});
  }

  void check() {
    Phase phase = machine_.phase();
    EXPECT_GE(static_cast<int>(phase), static_cast<int>(last_phase_)) << "went back";
    last_phase_ = phase;
    if (phase > Phase::serving && !began_at_) began_at_ = now_;
  }

  std::mt19937_64 random_;
  AgentLifecycle machine_;
  Instant now_ = kStart;
  std::multimap<Instant, Event> events_;
  std::optional<Instant> job_end_, began_at_, directive_at_;
  Instant berth_from_{}, berth_until_{}, ready_at_{};
  std::optional<Duration> dies_at_;
  Duration engine_loads_in_{};
  bool engine_obeys_ = true, alive_ = false, tree_ = false, leased_ = false, closed_ = false,
       killed_ = false, exited_ = false, drain_said_ = false, berth_knows_ = false,
       beat_in_flight_ = false, hurried_ = false;
  int starts_ = 0, terms_ = 0, reports_ = 0, idle_wakes_ = 0;
  Phase last_phase_ = Phase::idle;
};

TEST(AgentLifecycle, PropertiesHoldInRandomWorlds) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    World(seed).run();
    if (::testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace berth::lifecycle
