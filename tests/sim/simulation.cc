#include "sim/simulation.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "base/id.h"
#include "controller/controller.h"
#include "controller/leases.h"
#include "model/end_lead.h"
#include "plan/scale.h"
#include "sim/slurm_fake.h"
#include "store/memory_store.h"
#include "store/sqlite_store.h"

namespace berth::sim {
namespace {

using Phase = JobTruth::Phase;
using Agent = AgentTruth::State;

constexpr Duration kTick = seconds(1);
constexpr Duration kDrainGrace = seconds(20);
constexpr Duration kBound = minutes(25);    // to converge in
constexpr Duration kSettled = seconds(20);  // converged for so long: done

// The controller's process: dies and comes back.
struct Process {
  std::unique_ptr<controller::State> state;
  std::unique_ptr<controller::Controller> controller;
  std::unique_ptr<controller::Leases> leases;
};

class Simulation {
 public:
  explicit Simulation(const Options& options)
      : options_(options), random_(options.seed), slurm_(options.seed ^ 0x5eed, now_) {
    now_ = from_ms(1'800'000'000'000);
    policy_.flaw = options.flaw;
    policy_.installation = "sim";
    policy_.own_uid = 900;
  }
  ~Simulation() {
    process_.reset();
    store_.reset();
    if (!dir_.empty()) std::filesystem::remove_all(dir_);
  }

  Outcome run() {
    open_store();
    choose_faults();
    begin();
    declare_services();
    const Instant start = now_, calm = start + random_.between(minutes(4), minutes(8));
    while (now_ < calm && !out_.violation) tick(Weather::faults);
    if (!out_.violation) calm_down();
    Instant settled_since{};
    while (!out_.violation) {
      tick(Weather::calm);
      if (!converged()) {
        settled_since = {};
      } else if (settled_since == Instant{}) {
        settled_since = now_;
        out_.converged_ms = (now_ - calm).count();
      } else if (now_ - settled_since >= kSettled) {
        break;
      }
      if (now_ - calm > kBound)
        fail(fmt::format("liveness: not converged {} after the faults stopped: {}",
                         to_human(now_ - calm), why_not_converged_));
    }
    check_economy();
    out_.virtual_ms = (now_ - start).count();
    out_.jobs = slurm_.created;
    return out_;
  }

 private:
  enum class Weather { faults, calm };

  void fail(std::string text) {
    if (!out_.violation) out_.violation = std::move(text);
  }
  void trace(const std::string& text) {
    std::string line =
        fmt::format("{:9.3f} {}", static_cast<double>(to_ms(now_) % 100'000'000) / 1000.0, text);
    out_.digest = hash64(fmt::format("{:x} {}", out_.digest, line));
    if (options_.trace == Options::Trace::on) fmt::print("{}\n", line);
  }

  // ---- the process ----

  void open_store() {
    if (options_.store == StoreKind::memory) {
      store_ = std::make_unique<store::MemoryStore>();
      return;
    }
    if (dir_.empty()) {
      char name[] = "/dev/shm/berth-sim-XXXXXX";
      CHECK(mkdtemp(name) != nullptr);
      dir_ = name;
    }
    store_ = store::SqliteStore::open(dir_, store::SqliteStore::Durability::process).value();
  }

  void begin() {
    process_ = std::make_unique<Process>();
    process_->state = std::make_unique<controller::State>(controller::State::load(*store_).value());
    process_->controller =
        std::make_unique<controller::Controller>(*process_->state, policy_, now_);
    controller::LeasePolicy leases;
    leases.job_needed = controller::LeasePolicy::JobNeeded::no;
    process_->leases = std::make_unique<controller::Leases>(*process_->state, leases, "simulation");
    process_->leases->resume(now_);
    last_step_ = now_;
    ++epoch_;
    listing_in_flight_ = false;
    next_listing_ = now_;
  }

  // kill -9: whatever was on its way back is lost; what was on its way to Slurm goes on.
  void kill() {
    trace("controller killed");
    process_.reset();
    if (options_.store == StoreKind::sqlite) store_.reset();
    ++epoch_;
    ++out_.restarts;
    back_at_ = now_ + random_.between(seconds(1), seconds(20));
  }

  void come_back() {
    trace("controller started");
    if (!store_) open_store();
    begin();
  }

  controller::State& state() { return *process_->state; }
  const store::Snapshot& snapshot() { return process_->state->snapshot(); }

  void later(Duration after, std::function<void()> what) {
    messages_.emplace(now_ + after, std::move(what));
  }
  // Reaches the process only if it is still the same one.
  void reply(Duration after, std::function<void()> what) {
    later(after, [this, epoch = epoch_, what = std::move(what)] {
      if (process_ && epoch == epoch_) what();
    });
  }

  // ---- time ----

  void tick(Weather weather) {
    const Instant end = now_ + kTick;
    while (!messages_.empty() && messages_.begin()->first <= end) {
      auto message = std::move(*messages_.begin());
      messages_.erase(messages_.begin());
      now_ = std::max(now_, message.first);
      slurm_.advance();
      message.second();
      if (out_.violation) return;
    }
    now_ = end;
    slurm_.advance();
    if (weather == Weather::faults) break_things();
    for (JobTruth& job : slurm_.jobs()) run_agent(job);
    if (slurm_.extended_foreign)
      fail("safety: somebody else's job was extended: " + *slurm_.extended_foreign);
    if (slurm_.cancelled_foreign)
      fail("safety: somebody else's job was cancelled: " + *slurm_.cancelled_foreign);
    if (!process_) {
      if (now_ >= back_at_) come_back();
      return;
    }
    if (now_ < stalled_until_) return;
    if (process_->controller->may_expire(now_)) process_->leases->expire(now_);
    list();
    step();
    check_safety();
  }

  void step() {
    std::map<std::string, ReplicaRecord> before = living_records();
    uint64_t revision = state().revision();
    controller::Controller::Step step = process_->controller->step(now_);
    last_step_ = now_;
    ++out_.steps;
    if (state().revision() != revision) ++out_.commits;
    if (!step.committed) {
      trace("commit failed");
      return;
    }
    check_transitions(before);
    for (const plan::DrainEffect& e : step.effects.drains) {
      trace("drain " + e.key + ": " + e.why);
      (void)process_->leases->ask_drain(e.lease_id, e.why, now_);
    }
    for (const plan::SubmitEffect& e : step.effects.submits) send_submit(e.key);
    for (const plan::CancelEffect& e : step.effects.cancels) send_cancel(e);
    for (const plan::ExtendEffect& e : step.effects.extensions) send_extend(e);
    if (!step.effects.lookup.empty()) send_lookup(step.effects.lookup);
  }

  Duration to_slurm() { return random_.between(milliseconds(5), milliseconds(900)); }
  Duration from_slurm() { return random_.between(milliseconds(5), milliseconds(2500)); }

  void list() {
    if (listing_in_flight_ || now_ < next_listing_) return;
    listing_in_flight_ = true;
    // asked_at is when the question was sent; the answer may come much later.
    reply(Duration(0), [this] {
      JobListing listing = slurm_.list();
      reply(from_slurm(), [this, listing] {
        listing_in_flight_ = false;
        next_listing_ =
            now_ + (listing.quality == JobListing::Quality::complete ? seconds(1) : seconds(3));
        process_->controller->on_listing(listing);
      });
    });
  }

  void send_submit(const std::string& key) {
    ++out_.submits;
    sched::JobRequest request;
    request.key = key;
    if (const ReplicaRecord* r = state().replica(key)) request.work_dir = r->service;
    request.resources.time_limit = time_limit_;
    if (request.work_dir.empty()) request.work_dir = "?";
    trace("submit " + key);
    later(to_slurm(), [this, request, epoch = epoch_] {
      check_intent(request.key);
      Result<JobRef> outcome = slurm_.submit(request);
      trace(fmt::format("submit {}: {}", request.key,
                        outcome ? fmt::format("job {}", outcome->id) : outcome.error().message));
      bool lost = !outcome && outcome.error().code == Code::unknown_outcome;
      Duration back = lost ? Duration(seconds(8)) : from_slurm();
      if (epoch != epoch_) return;
      reply(back, [this, key = request.key, outcome] {
        process_->controller->on_submit_outcome(key, outcome, now_);
      });
    });
  }

  void send_cancel(const plan::CancelEffect& e) {
    ++out_.cancels;
    trace(fmt::format("cancel {} job {}", e.key, e.job.id));
    later(to_slurm(), [this, e, epoch = epoch_] {
      check_cancel(e);
      auto mode = e.force == plan::CancelEffect::Force::kill ? sched::CancelMode::kill
                                                             : sched::CancelMode::polite;
      Status outcome = slurm_.cancel(e.job, mode);
      if (epoch != epoch_) return;
      reply(from_slurm(), [this, key = e.key, outcome] {
        process_->controller->on_cancel_outcome(key, outcome);
      });
    });
  }

  void send_extend(const plan::ExtendEffect& e) {
    trace(fmt::format("extend {} job {}", e.key, e.job.id));
    later(to_slurm(), [this, e] { (void)slurm_.extend(e.job, e.started_at, e.until); });
  }

  void send_lookup(const plan::LookUpEffect& asked) {
    Instant asked_at = now_;
    reply(to_slurm(), [this, asked, asked_at] {
      Result<std::vector<JobEnd>> ends = slurm_.ended(asked.jobs);
      if (ends && !asked.keys.empty()) {
        Result<std::vector<JobEnd>> more = slurm_.ended_by_key(asked.keys);
        if (more)
          ends->insert(ends->end(), more->begin(), more->end());
        else
          ends = more;
      }
      reply(from_slurm(), [this, asked, asked_at, ends] {
        process_->controller->on_ends(asked, asked_at, ends);
      });
    });
  }

  // ---- agents and engines ----

  bool reachable() { return process_ && now_ >= stalled_until_; }

  void run_agent(JobTruth& job) {
    if (job.service.empty() || job.phase != Phase::running) return;
    AgentTruth& a = job.agent;
    switch (a.state) {
      case Agent::none:
        a.state = Agent::setup;
        a.deaf = random_.percent(deaf_);
        a.next_at = now_ + random_.between(seconds(1), seconds(4));
        return;
      case Agent::setup:
        if (now_ < a.next_at) return;
        a.state = Agent::loading;
        a.next_at = now_ + random_.between(seconds(3), seconds(25));
        if (random_.percent(crash_at_load_))
          a.fails_at = now_ + random_.between(seconds(1), seconds(20));
        else if (random_.percent(crash_later_))
          a.fails_at = a.next_at + random_.between(seconds(5), minutes(3));
        return;
      case Agent::dead:
        return;
      default:
        break;
    }
    if (a.fails_at && now_ >= *a.fails_at) {
      engine_dies(job);
      return;
    }
    if (a.state == Agent::ready && !a.deaf && planned_end(job)) {
      a.state = Agent::draining;
      a.next_at = now_ + random_.between(Duration(0), seconds(15));
    }
    if (a.state == Agent::draining && now_ >= a.next_at) {
      say_end(job, EndCause::completed, "drained");
      leave(job, JobState::completed, 0);
      return;
    }
    if (a.state == Agent::loading && now_ >= a.next_at) a.state = Agent::ready;
    if (to_ms(now_) / 1000 % 3 == static_cast<int64_t>(job.id % 3)) heartbeat(job);
  }

  // Its job's time is nearly up: it ends by itself.
  bool planned_end(const JobTruth& job) {
    return job.time_limit && now_ >= *job.ends_at() - end_lead(kDrainGrace, job.time_limit);
  }

  void leave(JobTruth& job, JobState how, int exit_code) {
    trace(fmt::format("job {} of {} ends: {}", job.id, job.key, to_string(how)));
    ++out_.ends;
    slurm_.begin_end(job, how, random_.between(Duration(0), seconds(2)));
    job.exit_code = exit_code;
  }

  void engine_dies(JobTruth& job) {
    bool loading = job.agent.state == Agent::loading;
    if (random_.percent(70))
      say_end(job, loading ? EndCause::failed_to_load : EndCause::crashed, "the engine died");
    leave(job, random_.percent(20) ? JobState::out_of_memory : JobState::failed, 1);
  }

  void say_end(JobTruth& job, EndCause cause, const std::string& detail) {
    if (!reachable() || job.agent.lease_id.empty()) return;
    (void)process_->leases->end(job.agent.lease_id, {cause, detail, 1, std::nullopt}, now_);
  }

  void heartbeat(JobTruth& job) {
    AgentTruth& a = job.agent;
    if (!reachable() || random_.percent(heartbeat_lost_)) return;
    if (a.lease_id.empty()) {
      proto::RegisterRequest request;
      request.service = job.service;
      request.replica_key = job.key;
      request.address = fmt::format("127.0.0.1:{}", 10000 + job.id % 50000);
      request.secret = "s";
      request.renew = "r";
      controller::Claim claim;
      claim.kind = proto::CredentialKind::join;
      claim.join_token = token_of(job.key);
      Result<proto::RegisterReply> admitted = process_->leases->admit(request, claim, now_);
      if (!admitted) return;  // refused: tried again at the next beat
      a.lease_id = admitted->lease_id;
    }
    proto::HeartbeatRequest beat;
    beat.state = a.state == Agent::ready      ? LeaseState::ready
                 : a.state == Agent::draining ? LeaseState::draining
                                              : LeaseState::loading;
    controller::Leases::Reachability dialled{controller::Leases::Reachability::Answer::reachable,
                                             ""};
    Result<proto::HeartbeatReply> answer =
        process_->leases->heartbeat(a.lease_id, beat, dialled, now_);
    if (!answer) {
      a.lease_id.clear();  // forgotten: register again at the next beat
      return;
    }
    a.heard_at = now_;
    if (answer->directive == proto::Directive::drain && !a.deaf && a.state != Agent::draining) {
      a.state = Agent::draining;
      a.next_at = now_ + random_.between(Duration(0), seconds(15));
    }
  }

  const std::string& token_of(const std::string& key) {
    std::string& token = tokens_[key];
    if (token.empty()) token = process_->leases->join_token(key);
    return token;
  }

  // ---- people ----

  void declare_services() {
    int n = 1 + random_.below(3);
    store::Change change;
    for (int i = 0; i < n; ++i) {
      ServiceRecord s;
      s.public_name = "alice/m" + std::to_string(i);
      s.owner = "alice";
      s.spec.name = "m" + std::to_string(i);
      s.spec.replicas = 1 + random_.below(3);
      s.spec.drain_grace = kDrainGrace;
      s.spec.resources.time_limit = time_limit_;
      s.created_at = s.updated_at = s.resumed_at = now_;
      wanted(s);
      change.put_services.push_back(s);
    }
    CHECK(state().commit(change).ok());
  }

  // What may have been asked for at most, for the oracles.
  void wanted(const ServiceRecord& s) {
    int target = plan::target_of(s);
    int& most = most_wanted_[s.public_name];
    most = std::max(most, target);
    allowed_jobs_ += target + 1;
  }

  void change_mind() {
    if (!reachable() || snapshot().services.empty()) return;
    auto it = snapshot().services.begin();
    std::advance(it, random_.below(static_cast<int>(snapshot().services.size())));
    ServiceRecord s = it->second;
    if (s.wanted == ServiceRecord::Wanted::removed) return;
    switch (random_.below(5)) {
      case 0:
        s.spec.replicas = 1 + random_.below(3);
        break;
      case 1:
        ++s.generation;
        break;
      case 2:
        ++s.restart_nonce;
        break;
      case 3:
        s.wanted = s.wanted == ServiceRecord::Wanted::stopped ? ServiceRecord::Wanted::running
                                                              : ServiceRecord::Wanted::stopped;
        break;
      default:
        s.wanted = random_.percent(30) ? ServiceRecord::Wanted::removed : s.wanted;
        break;
    }
    s.resumed_at = now_;
    trace(fmt::format("{}: {} replicas, generation {}, restart {}, wanted {}", s.public_name,
                      s.spec.replicas, s.generation, s.restart_nonce, static_cast<int>(s.wanted)));
    store::Change change;
    change.put_services = {s};
    if (state().commit(change).ok()) wanted(s);
  }

  // ---- faults ----

  // Each seed has its own kinds of faults, so that rare mixtures come up too.
  void choose_faults() {
    auto maybe = [&](int most) { return random_.percent(50) ? 1 + random_.below(most) : 0; };
    Faults& f = slurm_.faults;
    f.list_fails = maybe(20);
    f.list_partial = maybe(30);
    f.submit_lost = maybe(40);
    f.submit_limit = maybe(30);
    f.submit_unreachable = maybe(20);
    f.cancel_lost = random_.percent(75) ? 20 + random_.below(75) : 0;
    f.accounting_fails = random_.percent(35) ? 100 : maybe(40);
    f.accounting_lag = random_.between(Duration(0), seconds(random_.percent(50) ? 40 : 2));
    f.provisional_ends = maybe(50);
    f.reuse_ids = random_.percent(60) ? 100 : 0;
    crash_at_load_ = maybe(50);
    crash_later_ = maybe(60);
    heartbeat_lost_ = maybe(30);
    deaf_ = random_.percent(75) ? 30 + random_.below(70) : 0;
    kills_ = maybe(20);
    stalls_ = maybe(20);
    outages_ = maybe(10);
    evictions_ = maybe(60);
    moods_ = 20 + maybe(80);
    if (random_.percent(60)) time_limit_ = minutes(3 + random_.below(10));
    slurm_.lets_extend = random_.percent(50);
    if (random_.percent(50)) policy_.extend_by = minutes(1 + random_.below(5));
  }

  // Percentages are per ten seconds.
  bool roll(int percent) { return random_.below(1000) < percent; }

  void break_things() {
    if (roll(moods_)) change_mind();
    if (process_ && roll(kills_)) kill();
    if (process_ && now_ >= stalled_until_ && roll(stalls_)) {
      stalled_until_ = now_ + random_.between(seconds(8), seconds(40));
      trace("controller stalls until " + to_rfc3339(stalled_until_));
    }
    if (now_ >= slurm_.down_until && roll(outages_)) {
      slurm_.down_until = now_ + random_.between(seconds(5), seconds(50));
      trace("slurmctld down until " + to_rfc3339(slurm_.down_until));
    }
    if (roll(evictions_) && !slurm_.jobs().empty()) {
      size_t which = random_.next() % slurm_.jobs().size();
      JobTruth& job = slurm_.jobs()[which];
      if (!job.service.empty() && job.phase == Phase::running) evict(job);
    }
  }

  void evict(JobTruth& job) {
    int kind = random_.below(6);
    trace(fmt::format("eviction {} of job {} of {}", kind, job.id, job.key));
    switch (kind) {
      case 0:
      case 1:
        slurm_.requeue(job, "BeginTime", false);
        return;
      case 2:
        slurm_.requeue(job, "launch failed requeued held", true);
        return;
      case 3:
        leave(job, JobState::preempted, 0);
        return;
      case 4:
        leave(job, JobState::node_failed, 0);
        return;
      default:
        leave(job, JobState::cancelled, 0);
        job.cancelled_by = 7001;
    }
  }

  void calm_down() {
    trace("the faults stop");
    slurm_.faults = Faults{};
    slurm_.down_until = {};
    crash_at_load_ = crash_later_ = heartbeat_lost_ = 0;
    for (JobTruth& job : slurm_.jobs()) job.agent.fails_at.reset();
    if (!process_) come_back();
    store::Change change;  // people resume what had failed
    for (const auto& [name, s] : snapshot().services) {
      ServiceRecord resumed = s;
      resumed.resumed_at = now_;
      change.put_services.push_back(resumed);
    }
    CHECK(state().commit(change).ok());
  }

  // ---- oracles ----

  std::map<std::string, ReplicaRecord> living_records() {
    std::map<std::string, ReplicaRecord> living;
    for (const auto& [key, r] : snapshot().replicas)
      if (r.state != ReplicaState::ended) living.emplace(key, r);
    return living;
  }

  const JobTruth* alive(const std::string& key) {
    for (const JobTruth& job : slurm_.jobs())
      if (job.key == key && job.alive()) return &job;
    return nullptr;
  }

  void check_transitions(const std::map<std::string, ReplicaRecord>& before) {
    for (const auto& [key, old] : before) {
      const ReplicaRecord* r = state().replica(key);
      if (!r || r->state == ReplicaState::ended) {
        trace(key + " ended: " + (r ? r->end_detail : "forgotten"));
        if (const JobTruth* job = alive(key))
          fail(fmt::format("safety: {} was declared ended ({}) while job {} is alive", key,
                           r ? r->end_detail : "forgotten", job->id));
        continue;
      }
      if (r->state != old.state)
        trace(fmt::format("{} {} -> {}", key, to_string(old.state), to_string(r->state)));
      if (r->state == ReplicaState::unhealthy && old.state == ReplicaState::ready) check_feed(*r);
      if (r->stop && !old.stop) check_stop(*r);
      if (r->handover_at && !old.handover_at) check_handover(*r);
    }
  }

  // Begun for a job whose end is far away, or not known.
  void check_handover(const ReplicaRecord& r) {
    ++out_.handovers;
    trace(r.key + " is handed over");
    const JobTruth* job = alive(r.key);
    if (!job) return;
    if (!job->time_limit || now_ + seconds(2) < job->started_at + *job->time_limit / 10)
      fail(fmt::format("safety: {} is handed over {} after its start", r.key,
                       to_human(now_ - job->started_at)));
  }

  // Taken out of routing although it was heard in time, or could not have been heard.
  void check_feed(const ReplicaRecord& r) {
    const JobTruth* job = alive(r.key);
    if (!job || job->agent.state != Agent::ready) return;
    Instant could = std::max({job->agent.heard_at, stalled_until_, back_at_});
    if (now_ - could < seconds(9))
      fail(
          fmt::format("safety: {} serves, was last heard {} ago with the feed whole for {}, and "
                      "is taken for unhealthy",
                      r.key, to_human(now_ - job->agent.heard_at), to_human(now_ - could)));
  }

  void check_stop(const ReplicaRecord& r) {
    trace(r.key + " to be stopped: " + r.stop->why);
    const JobTruth* job = alive(r.key);
    if (r.stop->why.empty()) fail("safety: " + r.key + " is stopped without a reason");
    bool healthy =
        job && job->agent.state == Agent::ready && now_ - job->agent.heard_at < seconds(30);
    if (healthy && r.stop->cause != EndCause::stopped)
      fail(fmt::format("safety: {} serves and is given up: {}", r.key, r.stop->why));
  }

  void check_intent(const std::string& key) {
    if (!process_) {  // killed meanwhile: look at what the next one will read
      if (!store_) return;
      Result<store::Snapshot> stored = store_->load();
      if (stored && !stored->replicas.contains(key))
        fail("safety: " + key + " reaches Slurm and no record of it is durable");
      return;
    }
    if (!state().replica(key))
      fail("safety: " + key + " reaches Slurm and no record of it is durable");
  }

  void check_cancel(const plan::CancelEffect& e) {
    if (!process_) return;
    const JobTruth* job = alive(e.key);
    bool serves = job && job->id == e.job.id && job->agent.state == Agent::ready;
    const ReplicaRecord* r = state().replica(e.key);
    if (serves && (!r || !r->stop))
      fail("safety: job of " + e.key + " serves and is cancelled without a stop intent");
  }

  void check_safety() {
    std::map<std::string, int> live, near_their_end;
    for (JobTruth& job : slurm_.jobs()) {
      if (job.service.empty() || !job.alive()) continue;
      ++live[job.service];
      // Once it was near it counts as that, also when it was given more time.
      auto end = job.ends_at();
      if (end && now_ >= job.started_at + *job.time_limit / 10) job.neared_its_end = true;
      near_their_end[job.service] += job.neared_its_end;
    }
    for (const auto& [service, n] : live)
      if (n > most_wanted_[service] + policy_.surge + near_their_end[service])
        fail(
            fmt::format("safety: {} live jobs of {}, {} near their end; at most {} were ever "
                        "wanted",
                        n, service, near_their_end[service], most_wanted_[service]));
  }

  // Each job is explained: by what people asked for, or by one that ended.
  void check_economy() {
    int allowed = allowed_jobs_ + out_.ends + out_.handovers + slurm_.timed_out + give_up_ends();
    if (slurm_.created > allowed)
      fail(fmt::format("economy: {} jobs were made, {} are explained", slurm_.created, allowed));
  }

  // Replicas that Berth gave up for reasons of its own (held, silent): each is replaced once.
  int give_up_ends() {
    int n = 0;
    for (const auto& [name, most] : most_wanted_) {
      Result<std::vector<ReplicaRecord>> all = store_->history(name, 10'000);
      if (!all) continue;
      for (const ReplicaRecord& r : *all) n += r.stop && r.stop->cause != EndCause::stopped;
    }
    return n;
  }

  bool not_yet(std::string why) {
    why_not_converged_ = std::move(why);
    return false;
  }

  Instant gone_since(const ReplicaRecord& r) {
    Instant since = r.intended_at;
    for (const JobTruth& job : slurm_.jobs())
      if (job.key == r.key) since = std::max(since, job.ended_at);
    return since;
  }

  int handed_over(const std::string& service) {
    int n = 0;
    for (const auto& [key, r] : snapshot().replicas)
      n += r.service == service && r.state != ReplicaState::ended && r.handover_at;
    return n;
  }

  bool converged() {
    if (!process_) return not_yet("no controller");
    std::map<std::string, int> live, ready;
    for (const JobTruth& job : slurm_.jobs()) {
      if (job.service.empty() || !job.alive()) continue;
      ++live[job.service];
      ready[job.service] += job.agent.state == Agent::ready;
    }
    for (const auto& [service, n] : live)
      if (!snapshot().services.contains(service))
        return not_yet(fmt::format("{} jobs of {}, which is removed", n, service));
    for (const auto& [name, s] : snapshot().services) {
      if (s.wanted == ServiceRecord::Wanted::removed) return not_yet(name + " is not removed");
      int target = plan::target_of(s);
      const auto& reports = process_->controller->report().services;
      auto report = reports.find(name);
      if (report == reports.end()) return not_yet(name + " has no report");
      // Those that are handed over are there in addition, until their successors serve.
      int more = handed_over(name), counted = report->second.counts.living();
      bool too_many = live[name] > target + more || counted > target + more;
      if (too_many || live[name] < target || ready[name] < target)
        return not_yet(fmt::format("{}: {} live, {} ready of {} and {} handed over; {}", name,
                                   live[name], ready[name], target, more,
                                   plan::status_line(report->second, now_)));
      if (report->second.counts.ready < target || counted < target)
        return not_yet(fmt::format("{}: reported {} ready of {} living; {}", name,
                                   report->second.counts.ready, report->second.counts.living(),
                                   plan::status_line(report->second, now_)));
    }
    for (const auto& [key, r] : snapshot().replicas)
      if (r.state != ReplicaState::ended && !alive(key) && now_ - gone_since(r) > seconds(60))
        return not_yet(key + " is recorded as living and has no job");
    return true;
  }

  Options options_;
  Outcome out_;
  Random random_;
  Instant now_{};
  SlurmFake slurm_;
  plan::Policy policy_;
  std::unique_ptr<store::Store> store_;
  std::string dir_;
  std::unique_ptr<Process> process_;
  uint64_t epoch_ = 0;
  std::multimap<Instant, std::function<void()>> messages_;
  Instant last_step_{}, stalled_until_{}, back_at_{}, next_listing_{};
  bool listing_in_flight_ = false;
  int crash_at_load_ = 0, crash_later_ = 0, heartbeat_lost_ = 0, deaf_ = 0;
  int kills_ = 0, stalls_ = 0, outages_ = 0, evictions_ = 0, moods_ = 0;
  std::optional<Duration> time_limit_;
  int allowed_jobs_ = 0;
  std::map<std::string, int> most_wanted_;
  std::map<std::string, std::string> tokens_;
  std::string why_not_converged_;
};

}  // namespace

Outcome simulate(const Options& options) { return Simulation(options).run(); }

}  // namespace berth::sim
