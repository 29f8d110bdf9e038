#include "plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace berth::plan {
namespace {

// What the controller does around plan(), with a hand on everything.
struct Scene {
  Policy policy;
  Services services;
  Replicas replicas;
  Leases leases;
  Observed seen;
  Instant now = from_ms(1'000'000);
  Report report;
  std::vector<CancelEffect> cancelled;
  std::vector<DrainEffect> drained;
  std::vector<std::string> submitted;
  std::vector<std::string> notes;

  Scene() {
    seen.feed.fresh_since = now - hours(1);
    list({});
  }

  ServiceRecord& service(const std::string& name, int n = 1) {
    ServiceRecord& s = services[name];
    s.public_name = name;
    s.owner = "alice";
    s.spec.replicas = n;
    return s;
  }

  Effects step(Duration ahead = seconds(1)) {
    now += ahead;
    Plan p = plan({services, replicas, leases}, seen, estimate(services, replicas), policy, now);
    for (const ReplicaRecord& r : p.changes.put_replicas) {
      auto it = replicas.find(r.key);
      bool legal = it == replicas.end() || can_follow(it->second.state, r.state);
      EXPECT_TRUE(legal) << r.key;
      replicas[r.key] = r;
    }
    for (const std::string& name : p.changes.remove_services) services.erase(name);
    for (const std::string& id : p.changes.remove_leases) leases.erase(id);
    for (const Note& n : p.changes.notes) notes.push_back(n.kind + ": " + n.text);
    seen.submit_outcomes.clear();
    for (const SubmitEffect& e : p.effects.submits) {
      begin_submit(seen, e.key);
      submitted.push_back(e.key);
    }
    for (const CancelEffect& e : p.effects.cancels) cancelled.push_back(e);
    for (const DrainEffect& e : p.effects.drains) drained.push_back(e);
    report = p.report;
    return p.effects;
  }

  void list(std::vector<JobObserved> jobs) {
    JobListing l;
    l.quality = JobListing::Quality::complete;
    l.asked_at = now;
    l.jobs = std::move(jobs);
    fold_listing(seen, l, replicas, policy);
  }

  void fail_listing() {
    JobListing l;
    l.asked_at = now;
    l.error = "Socket timed out on send/recv operation";
    fold_listing(seen, l, replicas, policy);
  }

  JobObserved job(const std::string& key, JobState state) const {
    JobObserved j;
    j.key = key;
    j.ref = replicas.at(key).job;
    j.state = state;
    j.restarts = replicas.at(key).restarts;
    if (state == JobState::running) {
      j.started_at = now - seconds(1);
      j.nodes = {"n1"};
    }
    return j;
  }

  void outcome(const std::string& key, SubmitOutcome o) {
    o.at = now;
    seen.submits_in_flight.erase(key);
    seen.submit_outcomes[key] = std::move(o);
  }
  void accept(const std::string& key, uint64_t id) {
    outcome(key, {{}, JobRef{id, "", std::nullopt}, {}});
  }
  void refuse(const std::string& key, Code code, std::string text) {
    outcome(key, {{}, {}, Error{code, std::move(text), Source::scheduler, Retry::yes}});
  }

  LeaseRecord& lease(const std::string& key, LeaseState state) {
    LeaseRecord& l = leases["l-" + key];
    l.id = "l-" + key;
    l.replica_key = key;
    l.state = state;
    l.registered_at = l.registered_at == Instant{} ? now : l.registered_at;
    l.renewed_at = now;
    l.expires_at = now + seconds(10);
    return l;
  }

  void end_agent(const std::string& key, EndCause cause, std::string detail = "the engine died") {
    leases.erase("l-" + key);
    replicas[key].agent_end = AgentEnd{now, cause, std::move(detail), {}, {}};
  }

  void account(const std::string& key, JobState state, std::optional<uint32_t> by = std::nullopt) {
    JobEnd e;
    e.key = key;
    e.ref = replicas[key].job;
    e.state = state;
    e.ended_at = now;
    e.cancelled_by_uid = by;
    fold_ends(seen, now, {key}, std::vector<JobEnd>{e}, replicas, policy);
  }
  void account_nothing(const std::string& key) {
    fold_ends(seen, now, {key}, std::vector<JobEnd>{}, replicas, policy);
  }

  // One replica of `name` in service; its key.
  std::string bring_up(const std::string& name, uint64_t id = 7) {
    step();
    std::string key = submitted.back();
    accept(key, id);
    step();
    list({job(key, JobState::running)});
    lease(key, LeaseState::ready);
    step();
    EXPECT_EQ(replicas[key].state, ReplicaState::ready);
    EXPECT_EQ(report.services[name].status, ServiceStatus::ready);
    return key;
  }

  // Its job leaves the queue, and accounting says how.
  void bury(const std::string& key, JobState state) {
    for (int i = 0; i < 4; ++i) {
      now += seconds(1);
      list({});
      account(key, state);
      step(milliseconds(1));
    }
    EXPECT_EQ(replicas[key].state, ReplicaState::ended);
  }

  bool said(const std::string& part) const {
    return std::any_of(notes.begin(), notes.end(),
                       [&](const std::string& n) { return n.find(part) != std::string::npos; });
  }
};

TEST(Plan, NothingIsSubmittedBeforeAWholeListing) {
  Scene s;
  s.seen.scheduler = {};
  s.service("alice/m");
  EXPECT_TRUE(s.step().submits.empty());
  EXPECT_EQ(s.report.services["alice/m"].next, NextStep::wait_for_scheduler);
  s.list({});
  EXPECT_EQ(s.step().submits.size(), 1u);
}

TEST(Plan, FromDeclaredToReadyAndThenNothing) {
  Scene s;
  s.service("alice/m");
  std::string key = s.bring_up("alice/m");
  EXPECT_TRUE(key.starts_with("berth-")) << key;
  EXPECT_EQ(key.size(), 22u);
  Plan again = plan({s.services, s.replicas, s.leases}, s.seen, {}, s.policy, s.now);
  EXPECT_TRUE(again.changes.empty());
  EXPECT_TRUE(again.effects.submits.empty() && again.effects.cancels.empty());
  EXPECT_EQ(status_line(s.report.services["alice/m"], s.now), "ready: 1/1");
  EXPECT_EQ(s.report.services["alice/m"].next, NextStep::nothing);
}

TEST(Plan, APlanOfItsOwnResultChangesNothing) {
  Scene s;
  s.service("alice/m", 3);
  s.step();
  Plan again = plan({s.services, s.replicas, s.leases}, s.seen, {}, s.policy, s.now);
  EXPECT_TRUE(again.changes.empty());
  EXPECT_TRUE(again.effects.submits.empty());
}

// C03: whatever squeue fails with, no replica changes state, nothing is submitted or cancelled.
TEST(Plan, AnUnreachableSchedulerChangesNothing) {
  Scene s;
  s.service("alice/m");
  std::string key = s.bring_up("alice/m");
  s.service("alice/m").spec.replicas = 2;
  for (int i = 0; i < 30; ++i) {
    s.fail_listing();
    s.lease(key, LeaseState::ready);
    Effects e = s.step();
    EXPECT_TRUE(e.submits.empty() && e.cancels.empty());
    EXPECT_EQ(s.replicas[key].state, ReplicaState::ready);
  }
  EXPECT_TRUE(s.report.scheduler_failing_since.has_value());
  const ServiceReport& r = s.report.services["alice/m"];
  EXPECT_EQ(r.reasons.front().kind, ReasonKind::scheduler_unreachable);
  EXPECT_NE(status_line(r, s.now).find("unreachable, since 30s"), std::string::npos)
      << status_line(r, s.now);
  s.list({s.job(key, JobState::running)});
  EXPECT_EQ(s.step().submits.size(), 1u);
  EXPECT_FALSE(s.report.scheduler_failing_since.has_value());
}

// One that serves, with `left` until its job's end; its start took about a second.
struct HandoverScene : Scene {
  std::string old;

  explicit HandoverScene(Duration left = minutes(30)) {
    service("alice/m");
    old = bring_up("alice/m");
    replicas[old].ends_at = now + left;
  }
  void keep(Duration ahead = seconds(1)) {
    lease(old, LeaseState::ready);
    list_both();
    step(ahead);
  }
  void list_both() {
    std::vector<JobObserved> jobs;
    for (const auto& [key, r] : replicas)
      if (r.state != ReplicaState::ended && r.job.id != 0) jobs.push_back(seen_as(key, r));
    list(jobs);
  }
  JobObserved seen_as(const std::string& key, const ReplicaRecord& r) const {
    JobObserved j = job(key, r.started_at ? JobState::running : JobState::pending);
    j.reason = r.started_at ? "" : "Resources";
    j.started_at = r.started_at;
    j.estimated_start = r.estimated_start;
    return j;
  }
};

TEST(Plan, AReplicaIsHandedOverBeforeItsEnd) {
  HandoverScene s;
  const ServiceReport& report = s.report.services["alice/m"];
  s.keep();
  ASSERT_TRUE(report.handover_at && report.lead);
  EXPECT_GT(*report.handover_at, s.now + minutes(20));
  EXPECT_EQ(s.submitted.size(), 1u);
  s.now = *report.handover_at;
  s.keep();
  ASSERT_EQ(s.submitted.size(), 2u);
  std::string next = s.submitted.back();
  EXPECT_TRUE(s.said("handover: ")) << s.notes.back();
  EXPECT_TRUE(s.replicas[s.old].handover_at.has_value());
  s.accept(next, 8);
  s.keep();
  // The old one serves until the new one does.
  EXPECT_TRUE(s.drained.empty());
  EXPECT_EQ(s.report.services["alice/m"].status, ServiceStatus::ready);
  s.replicas[next].started_at = s.now;
  s.lease(next, LeaseState::ready);
  s.keep();
  s.keep();
  ASSERT_EQ(s.drained.size(), 1u);
  EXPECT_EQ(s.drained[0].key, s.old);
  EXPECT_EQ(s.replicas[s.old].stop->why, "handed over before its time limit");
  EXPECT_TRUE(s.replicas[next].state == ReplicaState::ready && !s.replicas[next].stop);
  EXPECT_FALSE(s.said("gap_ahead"));
}

TEST(Plan, AGapIsSaidInAdvanceAndMoreTimeIsAskedForWhereThatIsAllowed) {
  HandoverScene s(minutes(5));
  s.policy.extend_by = minutes(10);
  s.now = *s.replicas[s.old].ends_at - seconds(110);
  s.keep();
  ASSERT_EQ(s.submitted.size(), 2u);
  std::string next = s.submitted.back();
  s.accept(next, 8);
  s.keep();
  s.replicas[next].estimated_start = s.now + hours(2);
  s.keep();
  EXPECT_TRUE(s.said("gap_ahead: ")) << s.notes.back();
  const auto& reasons = s.report.services["alice/m"].reasons;
  auto gap = std::find_if(reasons.begin(), reasons.end(),
                          [](const Reason& r) { return r.kind == ReasonKind::gap_ahead; });
  ASSERT_NE(gap, reasons.end());
  EXPECT_NE(gap->detail.find("too late"), std::string::npos) << gap->detail;
  EXPECT_EQ(s.replicas[s.old].extensions, 1);
  EXPECT_TRUE(s.said("extend: asked for 10m00s more")) << s.notes.back();
  s.keep();  // not again at once
  EXPECT_EQ(s.replicas[s.old].extensions, 1);
  // It serves on, and nothing is stopped.
  EXPECT_TRUE(s.drained.empty() && s.cancelled.empty());
}

TEST(Plan, NoTimeIsAskedForUnlessTheSiteAllowsIt) {
  HandoverScene s(minutes(5));
  s.now = *s.replicas[s.old].ends_at - seconds(110);
  s.keep();
  s.refuse(s.submitted.back(), Code::exhausted, "QOSMaxJobsPerUserLimit");
  for (int i = 0; i < 70; ++i) s.keep();
  EXPECT_TRUE(s.said("gap_ahead: ")) << "the successor could not be submitted";
  EXPECT_EQ(s.replicas[s.old].extensions, 0);
}

TEST(Plan, AfterALostReplyTheJobIsAdoptedByItsKey) {
  Scene s;
  s.service("alice/m");
  s.step();
  std::string key = s.submitted.back();
  s.refuse(key, Code::unknown_outcome, "sbatch: Socket timed out");
  s.step();
  EXPECT_EQ(s.report.services["alice/m"].reasons.front().kind, ReasonKind::submit_unknown);
  EXPECT_EQ(s.report.services["alice/m"].next, NextStep::look_for_job);
  JobObserved j = s.job(key, JobState::pending);
  j.ref = {42, "", s.now};
  s.list({j});
  s.step();
  EXPECT_EQ(s.replicas[key].job.id, 42u);
  EXPECT_EQ(s.replicas[key].submit, SubmitState::accepted);
  EXPECT_TRUE(s.said("adopted"));
  EXPECT_EQ(s.submitted.size(), 1u);
}

TEST(Plan, AnAgentThatRegistersFirstIsAdoptedToo) {
  Scene s;
  s.service("alice/m");
  s.step();
  std::string key = s.submitted.back();
  s.refuse(key, Code::unknown_outcome, "timed out");
  s.lease(key, LeaseState::loading).job = {42, "", s.now};
  s.step();
  EXPECT_EQ(s.replicas[key].submit, SubmitState::accepted);
  EXPECT_EQ(s.replicas[key].state, ReplicaState::loading);
}

// C05 and law 3: only a grace, whole listings and accounting together prove that there is no job.
TEST(Plan, ALostSubmitIsRepeatedOnlyOnProof) {
  Scene s;
  s.service("alice/m");
  s.step();
  std::string key = s.submitted.back();
  s.refuse(key, Code::unknown_outcome, "timed out");
  for (int i = 0; i < 55; ++i) {
    s.list({});
    EXPECT_TRUE(s.step().submits.empty());
  }
  size_t looked = 0, more = 0;
  for (int i = 0; i < 30 && more == 0; ++i) {
    s.list({});
    Effects e = s.step();
    looked += !e.lookup.keys.empty();
    if (!e.lookup.keys.empty()) {
      s.now += milliseconds(10);
      s.account_nothing(key);
    }
    more = e.submits.size();
  }
  EXPECT_GE(looked, 1u);
  EXPECT_EQ(more, 1u);
  EXPECT_EQ(s.submitted, (std::vector<std::string>{key, key}));
  EXPECT_EQ(s.replicas[key].submit_attempts, 2);
}

TEST(Plan, AfterARestartAnIntentIsLookedForBeforeItIsSentAgain) {
  Scene s;
  s.service("alice/m");
  s.step();
  std::string key = s.submitted.back();
  s.seen = Observed{};  // the process died between commit and sbatch
  s.seen.feed.fresh_since = s.now;
  s.list({});
  EXPECT_TRUE(s.step().submits.empty());
  EXPECT_EQ(s.replicas[key].submit, SubmitState::unknown);
}

// C29: the job was over before anything saw it.
TEST(Plan, AJobThatEndsBeforeTheFirstPollHasItsEndFromAccounting) {
  Scene s;
  s.service("alice/m");
  s.step();
  std::string key = s.submitted.back();
  s.accept(key, 7);
  s.step();
  s.list({});
  Effects e = s.step();
  ASSERT_EQ(e.lookup.jobs.size(), 1u);
  JobEnd end;
  end.key = key;
  end.ref.id = 7;
  end.state = JobState::failed;
  end.exit_code = 3;
  end.ended_at = s.now;
  fold_ends(s.seen, s.now, {key}, std::vector<JobEnd>{end}, s.replicas, s.policy);
  s.step();
  EXPECT_EQ(s.replicas[key].state, ReplicaState::ended);
  EXPECT_EQ(s.replicas[key].end_cause, EndCause::failed_to_load);
  EXPECT_EQ(s.replicas[key].exit_code, 3);
  EXPECT_EQ(s.report.services["alice/m"].failed_starts, 1);
}

// C05 and C29: with accounting silent, gone means several whole listings, a minute after the
// submit.
TEST(Plan, WithoutAccountingManyListingsEndInUnknown) {
  Scene s;
  s.service("alice/m");
  s.step();
  std::string key = s.submitted.back();
  s.accept(key, 7);
  Instant sent = s.now;
  s.step();
  while (s.replicas[key].state != ReplicaState::ended) {
    ASSERT_LT(s.now - sent, minutes(2));
    s.list({});
    s.account_nothing(key);
    s.step();
  }
  EXPECT_GE(s.now - sent, seconds(60));
  EXPECT_EQ(s.replicas[key].end_cause, EndCause::unknown);
}

TEST(Plan, AHeartbeatContradictsAnAbsence) {
  Scene s;
  s.service("alice/m");
  std::string key = s.bring_up("alice/m");
  for (int i = 0; i < 200; ++i) {
    s.list({});
    s.now += milliseconds(100);
    s.lease(key, LeaseState::ready);
    s.account_nothing(key);
    s.step();
    ASSERT_EQ(s.replicas[key].state, ReplicaState::ready);
  }
}

// C05: ended, the time of the end provisional until accounting knows it.
TEST(Plan, AnEndWithoutATimeIsProvisional) {
  Scene s;
  s.service("alice/m");
  std::string key = s.bring_up("alice/m");
  s.leases.clear();
  auto tell = [&](std::optional<Instant> at) {
    JobEnd end;
    end.key = key;
    end.ref = s.replicas[key].job;
    end.state = JobState::completed;
    end.ended_at = at;
    fold_ends(s.seen, s.now, {key}, std::vector<JobEnd>{end}, s.replicas, s.policy);
  };
  s.now += seconds(1);
  s.list({});
  tell(std::nullopt);
  s.step();
  EXPECT_EQ(s.replicas[key].state, ReplicaState::ended);
  EXPECT_FALSE(s.replicas[key].ended_at.has_value());
  EXPECT_FALSE(s.step(seconds(5)).lookup.jobs.empty());
  Instant known = s.now;
  tell(known);
  s.step();
  EXPECT_EQ(s.replicas[key].ended_at, known);
}

// A07: each attempt after a longer wait; failed after the last; one call is enough to go on.
TEST(Plan, ACrashLoopBacksOffFailsAndResumes) {
  Scene s;
  s.service("alice/m");
  size_t attempts = 0;
  Instant first = s.now;
  while (s.report.services["alice/m"].status != ServiceStatus::failed) {
    ASSERT_LT(s.now - first, hours(1));
    s.list({});
    s.step();
    if (s.submitted.size() == attempts) continue;
    attempts = s.submitted.size();
    std::string key = s.submitted.back();
    s.accept(key, 100 + attempts);
    s.step();
    s.end_agent(key, EndCause::failed_to_load, "CUDA out of memory");
    s.bury(key, JobState::failed);
  }
  EXPECT_EQ(attempts, 5u);
  EXPECT_GE(s.now - first, seconds(5 + 10 + 20 + 40));
  const ServiceReport& r = s.report.services["alice/m"];
  EXPECT_EQ(r.last_error, "CUDA out of memory");
  EXPECT_EQ(r.reasons.front().kind, ReasonKind::gave_up);
  EXPECT_EQ(r.next, NextStep::ask_a_person);
  for (int i = 0; i < 100; ++i) {
    s.list({});
    EXPECT_TRUE(s.step(seconds(30)).submits.empty());
  }
  s.service("alice/m").resumed_at = s.now;
  s.list({});
  EXPECT_EQ(s.step().submits.size(), 1u);
}

TEST(Plan, APermanentRefusalCountsAsAFailedStart) {
  Scene s;
  s.service("alice/m");
  s.step();
  std::string key = s.submitted.back();
  s.refuse(key, Code::invalid_argument, "sbatch: error: invalid partition specified: nope");
  s.step();
  EXPECT_EQ(s.replicas[key].end_cause, EndCause::refused);
  EXPECT_EQ(s.report.services["alice/m"].failed_starts, 1);
  EXPECT_NE(s.report.services["alice/m"].last_error.find("invalid partition"), std::string::npos);
}

// C17: waits, names the limit, delays nobody else, and starts by itself once it is lifted.
TEST(Plan, ASubmitLimitIsWaitedFor) {
  Scene s;
  s.service("alice/m", 2);
  s.service("bob/n");
  s.step();
  ASSERT_EQ(s.submitted.size(), 3u);
  std::map<std::string, int> attempts;
  auto answer = [&](const std::string& key) {
    ++attempts[s.replicas[key].service];
    if (s.replicas[key].service == "bob/n")
      s.accept(key, 50);
    else
      s.refuse(key, Code::exhausted, "AssocMaxSubmitJobLimit");
  };
  for (size_t i = 0; i < 3; ++i) answer(s.submitted[i]);
  auto list_queued = [&] {
    std::vector<JobObserved> jobs;
    for (const auto& [key, r] : s.replicas)
      if (r.job.id != 0) jobs.push_back(s.job(key, JobState::pending));
    s.list(jobs);
  };
  for (int i = 0; i < 600; ++i) {
    size_t before = s.submitted.size();
    list_queued();
    s.step();
    for (size_t k = before; k < s.submitted.size(); ++k) answer(s.submitted[k]);
    ASSERT_NE(s.report.services["alice/m"].status, ServiceStatus::failed);
  }
  EXPECT_LE(attempts["alice/m"], 10);
  EXPECT_GE(attempts["alice/m"], 4);
  EXPECT_EQ(attempts["bob/n"], 1);
  const ServiceReport& r = s.report.services["alice/m"];
  EXPECT_EQ(r.status, ServiceStatus::waiting);
  EXPECT_EQ(status_line(r, s.now), "waiting: submit limit (AssocMaxSubmitJobLimit)");
  EXPECT_TRUE(r.next_attempt_at.has_value());
  int accepted = 0;
  for (int i = 0; i < 900 && accepted < 2; ++i) {
    size_t before = s.submitted.size();
    list_queued();
    s.step();
    for (size_t k = before; k < s.submitted.size(); ++k)
      s.accept(s.submitted[k], static_cast<uint64_t>(60 + accepted++));
  }
  EXPECT_EQ(accepted, 2);
}

// C07: the same record goes back to pending, out of routing at once; nothing new is submitted.
TEST(Plan, ARequeuedJobKeepsItsRecord) {
  Scene s;
  s.service("alice/m");
  std::string key = s.bring_up("alice/m");
  s.now += seconds(5);
  JobObserved j = s.job(key, JobState::pending);
  j.restarts = 1;
  j.reason = "BeginTime";
  s.list({j});
  s.step();
  EXPECT_EQ(s.replicas[key].state, ReplicaState::pending);
  EXPECT_EQ(s.replicas[key].restarts, 1);
  EXPECT_FALSE(s.replicas[key].ready_at.has_value());
  EXPECT_TRUE(s.leases.empty());
  EXPECT_EQ(s.submitted.size(), 1u);
  for (int i = 0; i < 120; ++i) {
    s.list({j});
    EXPECT_TRUE(s.step().submits.empty());
  }
  s.list({[&] {
    JobObserved running = s.job(key, JobState::running);
    running.restarts = 1;
    return running;
  }()});
  s.step();
  s.lease(key, LeaseState::ready).registered_at = s.now;
  s.step();
  EXPECT_EQ(s.replicas[key].state, ReplicaState::ready);
}

TEST(Plan, ARequeueThatTheSchedulerDoesNotCountIsSeenByItsState) {
  Scene s;
  s.service("alice/m");
  std::string key = s.bring_up("alice/m");
  s.now += seconds(5);
  s.list({s.job(key, JobState::pending)});
  s.step();
  EXPECT_EQ(s.replicas[key].state, ReplicaState::pending);
  EXPECT_EQ(s.replicas[key].restarts, 1);
  s.step();
  EXPECT_EQ(s.replicas[key].restarts, 1);
}

TEST(Plan, AnOldListingDoesNotUndoARegistration) {
  Scene s;
  s.service("alice/m");
  s.step();
  std::string key = s.submitted.back();
  s.accept(key, 7);
  s.step();
  s.list({s.job(key, JobState::pending)});
  s.step();
  s.lease(key, LeaseState::ready);  // registered after that listing was asked for
  s.step();
  EXPECT_EQ(s.replicas[key].state, ReplicaState::ready);
  EXPECT_EQ(s.replicas[key].restarts, 0);
}

// C07: preempted for good (no requeue) means one new job.
TEST(Plan, APreemptedJobIsReplacedOnce) {
  Scene s;
  s.service("alice/m");
  std::string key = s.bring_up("alice/m");
  s.leases.clear();
  s.bury(key, JobState::preempted);
  EXPECT_EQ(s.replicas[key].end_cause, EndCause::preempted);
  for (int i = 0; i < 20; ++i) {
    s.list({});
    s.step();
  }
  EXPECT_EQ(s.submitted.size(), 2u);
  EXPECT_EQ(s.report.services["alice/m"].failed_starts, 0);
}

// C27: cancelled, and resubmitted without that node.
TEST(Plan, LaunchFailedRequeuedHeldMovesToAnotherNode) {
  Scene s;
  s.service("alice/m");
  s.step();
  std::string key = s.submitted.back();
  s.accept(key, 7);
  s.step();
  s.list({s.job(key, JobState::running)});
  s.step();
  JobObserved held = s.job(key, JobState::pending);
  held.reason = "launch failed requeued held";
  held.pending_class = PendingClass::needs_admin;
  held.restarts = 1;
  s.now += seconds(1);
  s.list({held});
  s.step();
  s.step();
  ASSERT_EQ(s.cancelled.size(), 1u);
  EXPECT_EQ(s.cancelled[0].job.id, 7u);
  s.bury(key, JobState::cancelled);
  EXPECT_EQ(s.replicas[key].end_cause, EndCause::launch_failed);
  for (int i = 0; i < 20 && s.submitted.size() < 2; ++i) {
    s.list({});
    s.step();
  }
  ASSERT_EQ(s.submitted.size(), 2u);
  EXPECT_EQ(s.replicas[key].node, "n1");
  EXPECT_EQ(s.replicas[s.submitted[1]].exclude_nodes, (std::vector<std::string>{"n1"}));
}

// C27: a person's hold is respected and reported.
TEST(Plan, AHoldByAPersonIsLeftAlone) {
  Scene s;
  s.service("alice/m");
  s.step();
  std::string key = s.submitted.back();
  s.accept(key, 7);
  s.step();
  JobObserved held = s.job(key, JobState::pending);
  held.reason = "JobHeldUser";
  held.pending_class = PendingClass::needs_admin;
  for (int i = 0; i < 100; ++i) {
    s.list({held});
    Effects e = s.step(seconds(10));
    EXPECT_TRUE(e.cancels.empty() && e.submits.empty());
  }
  const ServiceReport& r = s.report.services["alice/m"];
  EXPECT_EQ(r.status, ServiceStatus::degraded);
  EXPECT_EQ(r.reasons.front().kind, ReasonKind::held);
  EXPECT_EQ(r.reasons.front().detail, "JobHeldUser");
}

// C15: the reason verbatim, since when, and `never` means degraded.
TEST(Plan, PendingReasonsAreReportedAndNeverDegrades) {
  Scene s;
  s.service("alice/m");
  s.step();
  std::string key = s.submitted.back();
  s.accept(key, 7);
  s.step();
  JobObserved j = s.job(key, JobState::pending);
  j.reason = "ReqNodeNotAvail, UnavailableNodes:d[001-032],f[001-024]";
  j.pending_class = PendingClass::needs_admin;
  j.estimated_start = s.now + minutes(40);
  s.list({j});
  s.step();
  Instant since = s.now;
  s.list({j});
  s.step(seconds(60));
  const ServiceReport* r = &s.report.services["alice/m"];
  EXPECT_EQ(r->status, ServiceStatus::waiting);
  EXPECT_EQ(r->reasons.front().detail, j.reason);
  EXPECT_EQ(r->reasons.front().since, since);
  EXPECT_EQ(r->reasons.front().until, j.estimated_start);
  j.reason = "PartitionTimeLimit";
  j.pending_class = PendingClass::never;
  s.list({j});
  s.step();
  r = &s.report.services["alice/m"];
  EXPECT_EQ(r->status, ServiceStatus::degraded);
  EXPECT_EQ(r->reasons.front().kind, ReasonKind::never_starts);
  EXPECT_NE(explain(*r, s.now)[0].find("PartitionTimeLimit"), std::string::npos);
}

// A09: counted apart, and the bad one named with job and node.
TEST(Plan, OneUnhealthyReplicaOfThreeIsNamed) {
  Scene s;
  s.service("alice/m", 3);
  s.step();
  ASSERT_EQ(s.submitted.size(), 3u);
  std::vector<JobObserved> jobs;
  for (size_t i = 0; i < 3; ++i) s.accept(s.submitted[i], 10 + i);
  s.step();
  for (const std::string& key : s.submitted) jobs.push_back(s.job(key, JobState::running));
  s.list(jobs);
  for (const std::string& key : s.submitted) s.lease(key, LeaseState::ready);
  s.step();
  s.lease(s.submitted[1], LeaseState::unhealthy);
  s.step();
  const ServiceReport& r = s.report.services["alice/m"];
  EXPECT_EQ(r.counts.ready, 2);
  EXPECT_EQ(r.counts.unhealthy, 1);
  EXPECT_EQ(r.status, ServiceStatus::degraded);
  ASSERT_EQ(r.reasons.front().kind, ReasonKind::unhealthy);
  EXPECT_EQ(r.reasons.front().job_id, 11u);
  EXPECT_EQ(r.reasons.front().node, "n1");
}

TEST(Plan, AStopDrainsThenCancelsAndRepeatsUntilItHasEnded) {
  Scene s;
  s.service("alice/m").spec.drain_grace = seconds(30);
  std::string key = s.bring_up("alice/m");
  s.service("alice/m").wanted = ServiceRecord::Wanted::stopped;
  auto tick = [&](int n) {
    for (int i = 0; i < n; ++i) {
      s.list({s.job(key, JobState::running)});
      s.lease(key, LeaseState::ready);
      s.step();
    }
  };
  tick(1);
  ASSERT_EQ(s.drained.size(), 1u);
  EXPECT_EQ(s.replicas[key].state, ReplicaState::draining);
  EXPECT_TRUE(s.cancelled.empty());
  tick(44);
  EXPECT_TRUE(s.cancelled.empty());
  tick(2);
  ASSERT_EQ(s.cancelled.size(), 1u);
  // C33: the reply of scancel says nothing; still running means again, and harder.
  tick(25);
  EXPECT_EQ(s.cancelled.size(), 2u);
  tick(50);
  EXPECT_EQ(s.cancelled.size(), 3u);
  tick(100);
  ASSERT_EQ(s.cancelled.size(), 4u);
  EXPECT_EQ(s.cancelled[2].force, CancelEffect::Force::polite);
  EXPECT_EQ(s.cancelled[3].force, CancelEffect::Force::kill);
  EXPECT_EQ(s.report.services["alice/m"].reasons.front().kind, ReasonKind::cancel_repeated);
  s.leases.clear();
  s.bury(key, JobState::cancelled);
  EXPECT_EQ(s.replicas[key].end_cause, EndCause::stopped);
  EXPECT_EQ(s.report.services["alice/m"].status, ServiceStatus::stopped);
}

TEST(Plan, AQueuedReplicaIsCancelledAtOnce) {
  Scene s;
  s.service("alice/m");
  s.step();
  std::string key = s.submitted.back();
  s.accept(key, 7);
  s.step();
  s.list({s.job(key, JobState::pending)});
  s.service("alice/m").wanted = ServiceRecord::Wanted::removed;
  s.step();
  ASSERT_EQ(s.cancelled.size(), 1u);
  s.bury(key, JobState::cancelled);
  s.step();
  EXPECT_TRUE(s.services.empty());
}

// C33: COMPLETING for longer than Slurm should take is shown, not cancelled again.
TEST(Plan, StuckInCompletingIsReported) {
  Scene s;
  s.service("alice/m");
  std::string key = s.bring_up("alice/m");
  s.leases.clear();
  s.service("alice/m").wanted = ServiceRecord::Wanted::stopped;
  for (int i = 0; i < 200; ++i) {
    s.list({s.job(key, JobState::completing)});
    s.step();
  }
  EXPECT_TRUE(s.cancelled.empty());
  EXPECT_EQ(s.report.services["alice/m"].reasons.front().kind, ReasonKind::stuck_completing);
}

TEST(Plan, AReusedIdIsNeverCancelled) {
  Scene s;
  s.service("alice/m");
  std::string key = s.bring_up("alice/m");
  s.service("alice/m").wanted = ServiceRecord::Wanted::stopped;
  s.leases.clear();
  JobObserved foreign = s.job(key, JobState::running);
  foreign.key = "somebodys-training";
  for (int i = 0; i < 300; ++i) {
    s.now += seconds(1);
    s.list({foreign});
    s.step();
    ASSERT_TRUE(s.cancelled.empty());
  }
  EXPECT_EQ(s.replicas[key].state, ReplicaState::ended);
}

TEST(Plan, ANewGenerationStartsFirstAndStopsTheOldAfterwards) {
  Scene s;
  s.service("alice/m");
  std::string old = s.bring_up("alice/m");
  s.service("alice/m").generation = 2;
  s.list({s.job(old, JobState::running)});
  s.lease(old, LeaseState::ready);
  s.step();
  ASSERT_EQ(s.submitted.size(), 2u);
  EXPECT_FALSE(s.replicas[old].stop.has_value());
  EXPECT_EQ(s.report.services["alice/m"].reasons.front().kind, ReasonKind::submitting);
  std::string fresh = s.submitted.back();
  EXPECT_EQ(s.replicas[fresh].generation, 2u);
  s.accept(fresh, 8);
  s.step();
  s.list({s.job(old, JobState::running), s.job(fresh, JobState::running)});
  s.lease(old, LeaseState::ready);
  s.lease(fresh, LeaseState::ready);
  s.step();
  s.step();
  EXPECT_TRUE(s.replicas[old].stop.has_value());
  EXPECT_EQ(s.replicas[old].stop->why, "replaced by generation 2");
  EXPECT_FALSE(s.replicas[fresh].stop.has_value());
}

TEST(Plan, AnExpiredLeaseIsUnhealthyNotDead) {
  Scene s;
  s.service("alice/m");
  std::string key = s.bring_up("alice/m");
  auto running = [&] { s.list({s.job(key, JobState::running)}); };
  s.now += seconds(20);
  running();
  s.step();
  EXPECT_EQ(s.replicas[key].state, ReplicaState::unhealthy);
  s.lease(key, LeaseState::ready);
  s.step();
  EXPECT_EQ(s.replicas[key].state, ReplicaState::ready);
  // Silent for long: replaced, although the job runs.
  for (int i = 0; i < 400 && !s.replicas[key].stop; ++i) {
    running();
    s.step();
  }
  ASSERT_TRUE(s.replicas[key].stop.has_value());
  EXPECT_EQ(s.replicas[key].stop->cause, EndCause::crashed);
}

TEST(Plan, NothingExpiresWhileTheFeedIsStale) {
  Scene s;
  s.service("alice/m");
  std::string key = s.bring_up("alice/m");
  s.seen.feed.fresh_since.reset();
  for (int i = 0; i < 1000; ++i) {
    s.list({s.job(key, JobState::running)});
    s.step();
    ASSERT_EQ(s.replicas[key].state, ReplicaState::ready);
    ASSERT_FALSE(s.replicas[key].stop.has_value());
  }
}

TEST(Plan, ManySilentAgentsAreNotStoppedAllAtOnce) {
  Scene s;
  s.policy.max_submits_per_tick = 20;
  s.service("alice/m", 10);
  s.step();
  std::vector<std::string> keys = s.submitted;
  ASSERT_EQ(keys.size(), 10u);
  for (size_t i = 0; i < keys.size(); ++i) s.accept(keys[i], 10 + i);
  s.step();
  auto running = [&] {
    std::vector<JobObserved> jobs;
    for (const std::string& key : keys) jobs.push_back(s.job(key, JobState::running));
    s.list(jobs);
  };
  running();
  for (const std::string& key : keys) s.lease(key, LeaseState::ready);
  s.step();
  for (int i = 0; i < 600; ++i) {
    running();
    s.step();
  }
  int stopping = 0;
  for (const std::string& key : keys) stopping += s.replicas[key].stop.has_value();
  EXPECT_EQ(stopping, 2);
  EXPECT_TRUE(s.report.guard.has_value());
  const std::vector<Reason>& said = s.report.services.begin()->second.reasons;
  EXPECT_TRUE(std::any_of(said.begin(), said.end(),
                          [](const Reason& r) { return r.kind == ReasonKind::blast_guard; }));
}

TEST(Plan, ASecondJobWithAReplicasKeyIsTold) {
  Scene s;
  s.service("alice/m");
  std::string key = s.bring_up("alice/m");
  JobObserved ours = s.job(key, JobState::running), second = ours;
  second.ref.id += 1000;
  s.list({ours, second});
  s.lease(key, LeaseState::ready);
  s.step();
  const std::vector<Reason>& said = s.report.services.at("alice/m").reasons;
  auto told = std::find_if(said.begin(), said.end(),
                           [](const Reason& r) { return r.kind == ReasonKind::duplicate_job; });
  ASSERT_NE(told, said.end());
  EXPECT_EQ(told->detail, "job " + std::to_string(second.ref.id));
}

TEST(Plan, ReplicasOfNoDeclaredServiceAreGuarded) {
  Scene s;
  s.service("alice/m");
  std::string key = s.bring_up("alice/m");
  s.services.clear();  // as if the table had been lost
  for (int i = 0; i < 100; ++i) {
    s.list({s.job(key, JobState::running)});
    s.lease(key, LeaseState::ready);
    Effects e = s.step();
    ASSERT_TRUE(e.cancels.empty() && e.drains.empty());
  }
  EXPECT_TRUE(s.report.guard.has_value());
}

TEST(Plan, SubmitsAndCancelsAreBoundedPerTick) {
  Scene s;
  for (int i = 0; i < 12; ++i) s.service("alice/m" + std::to_string(i), 2);
  EXPECT_EQ(s.step().submits.size(), 5u);
  EXPECT_EQ(s.report.services["alice/m9"].reasons.front().kind, ReasonKind::tick_limit);
  std::map<std::string, int> of;
  for (int i = 0; i < 10; ++i) {
    s.list({});
    EXPECT_LE(s.step().submits.size(), 5u);
  }
  for (const std::string& key : s.submitted) ++of[s.replicas[key].service];
  EXPECT_EQ(s.submitted.size(), 24u);
  for (const auto& [name, n] : of) EXPECT_EQ(n, 2) << name;
}

TEST(Plan, ASecondJobWithAKeyIsCancelled) {
  Scene s;
  s.service("alice/m");
  std::string key = s.bring_up("alice/m");
  s.now += seconds(1);
  JobObserved twin = s.job(key, JobState::pending);
  twin.ref.id = 99;
  s.list({s.job(key, JobState::running), twin});
  s.step();
  ASSERT_EQ(s.cancelled.size(), 1u);
  EXPECT_EQ(s.cancelled[0].job.id, 99u);
  EXPECT_EQ(s.replicas[key].state, ReplicaState::ready);
}

TEST(Plan, JobsNamedLikeOursWithoutARecordAreLeftAlone) {
  Scene s;
  JobObserved j;
  j.key = "berth-00000000000000ff";
  j.ref.id = 5;
  j.state = JobState::running;
  s.now += seconds(1);
  s.list({j});
  EXPECT_TRUE(s.step().cancels.empty());
  EXPECT_EQ(s.report.strange_keys, (std::vector<std::string>{j.key}));
}

// A cancel by somebody is not fought: it backs off, says who, and stops after several.
TEST(Plan, SomebodysCancelIsReportedAndCounts) {
  Scene s;
  s.service("alice/m");
  std::string key = s.bring_up("alice/m");
  s.leases.clear();
  s.now += seconds(1);
  s.list({});
  s.account(key, JobState::cancelled, 7001);
  s.step();
  EXPECT_EQ(s.replicas[key].end_cause, EndCause::cancelled);
  EXPECT_EQ(s.report.services["alice/m"].last_error, "cancelled by user 7001");
  EXPECT_TRUE(s.step().submits.empty());
  s.list({});
  EXPECT_EQ(s.step(seconds(7)).submits.size(), 1u);
}

}  // namespace
}  // namespace berth::plan
