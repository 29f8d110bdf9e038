// What one tick of the controller costs at 1,000 services and 10,000 jobs: processor time of this
// process for reading the listing, taking it in, planning, and the routes for the gateway.
//
//   bench_tick [SERVICES [REPLICAS_OF_EACH [TICKS]]]
//
// Everything is the product's own but the listing's text, which is made here in squeue's format,
// and the store, which is in memory: a tick at rest writes nothing. One line of JSON on standard
// output; times in milliseconds, medians over the ticks.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "controller/controller.h"
#include "sched/slurm_answer.h"
#include "store/memory_store.h"

namespace {

using namespace berth;

double cpu_ms() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

std::string key_of(int job) { return fmt::format("berth-{:016x}", job); }

store::Change site(int services, int replicas, Instant now) {
  store::Change change;
  for (int s = 0; s < services; ++s) {
    ServiceRecord service;
    service.public_name = fmt::format("user{}/model-{}", s % 97, s);
    service.owner = fmt::format("user{}", s % 97);
    service.project = "gaia";
    service.spec.name = fmt::format("model-{}", s);
    service.spec.replicas = replicas;
    service.spec.resources.partition = s % 3 == 0 ? "h100" : "a40";
    service.created_at = now - hours(48);
    change.put_services.push_back(service);
    for (int i = 0; i < replicas; ++i) {
      const int job = s * replicas + i + 1;
      ReplicaRecord r;
      r.key = key_of(job);
      r.service = service.public_name;
      r.generation = service.generation;
      r.partition = service.spec.resources.partition;
      r.state = ReplicaState::ready;
      r.submit = SubmitState::accepted;
      r.submit_attempts = 1;
      r.intended_at = now - hours(2);
      r.submit_sent_at = r.intended_at;
      r.state_since = r.intended_at;
      r.job = {static_cast<uint64_t>(job), "", from_ms(to_ms(r.intended_at) / 1000 * 1000)};
      r.started_at = *r.job.submit_time + seconds(30);
      r.ends_at = *r.started_at + hours(8);
      r.ready_at = *r.started_at + seconds(90);
      r.last_seen_at = now;
      r.node = fmt::format("node{:03}", job % 500);
      r.lease_id = "lease-" + r.key;
      LeaseRecord lease;
      lease.id = r.lease_id;
      lease.public_name = r.service;
      lease.replica_key = r.key;
      lease.job = r.job;
      lease.node = r.node;
      lease.address = fmt::format("10.0.{}.{}:{}", job / 250 % 250, job % 250, 20000 + job % 40000);
      lease.state = LeaseState::ready;
      lease.registered_at = *r.ready_at;
      lease.renewed_at = now;
      lease.expires_at = now + hours(1);
      change.put_leases.push_back(lease);
      change.put_replicas.push_back(std::move(r));
    }
  }
  return change;
}

// What squeue prints for the running jobs of `change`.
std::string squeue_text(const store::Change& change, const std::string& nonce) {
  auto row = [&](std::string text) {
    std::replace(text.begin(), text.end(), '^', '\x1f');
    return text + ">" + nonce + "\n";
  };
  std::string out =
      row("JOBID^UID^STATE^RESTART_COUNT^EXIT_CODE^SUBMIT_TIME^START_TIME^END_TIME^TIME_LIMIT^USER^"
          "NODELIST^REASON^ACCOUNT^NAME");
  for (const ReplicaRecord& r : change.put_replicas)
    out += row(fmt::format("{}^7001^RUNNING^0^0^{}^{}^{}^8:00:00^berth^{}^None^gaia^{}", r.job.id,
                           to_ms(*r.job.submit_time) / 1000, to_ms(*r.started_at) / 1000,
                           to_ms(*r.ends_at) / 1000, r.node, r.key));
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const int services = argc > 1 ? std::atoi(argv[1]) : 1000;
  const int replicas = argc > 2 ? std::atoi(argv[2]) : 10;
  const int ticks = argc > 3 ? std::atoi(argv[3]) : 21;
  Instant now = from_ms(1'800'000'000'000);
  store::Change change = site(services, replicas, now);
  store::MemoryStore store;
  controller::State state = controller::State::load(store).value();
  if (!state.commit(change)) return 1;
  controller::Controller controller(state, plan::Policy{}, now - hours(1));
  controller::LoadTable loads;
  runtime::CommandResult answer;
  answer.exit_status = 0;
  answer.output = squeue_text(change, "00ff");

  std::vector<double> read, take_in, step, routes, whole;
  size_t effects = 0, lookups = 0;
  for (int i = 0; i < ticks; ++i) {
    now += seconds(1);
    for (const auto& lease : change.put_leases)  // heartbeats, not the tick's
      state.renew_lease(lease.id, now, now + seconds(10));
    const double t0 = cpu_ms();
    sched::QueueAnswer rows = sched::read_squeue(answer, "00ff");
    JobListing listing;
    listing.quality = rows.quality;
    listing.asked_at = now;
    for (sched::QueueRow& row : rows.rows) listing.jobs.push_back(std::move(row.job));
    const double t1 = cpu_ms();
    controller.on_listing(listing);
    const double t2 = cpu_ms();
    controller::Controller::Step done = controller.step(now);
    const double t3 = cpu_ms();
    if (done.publish) (void)controller.routes(loads, now);
    const double t4 = cpu_ms();
    if (!done.committed || rows.quality != JobListing::Quality::complete) return 1;
    effects += done.effects.submits.size() + done.effects.cancels.size();
    lookups += !done.effects.lookup.empty();
    read.push_back(t1 - t0);
    take_in.push_back(t2 - t1);
    step.push_back(t3 - t2);
    routes.push_back(t4 - t3);
    whole.push_back(t4 - t0);
  }
  std::sort(whole.begin(), whole.end());
  fmt::print(
      "{{\"services\":{},\"jobs\":{},\"ticks\":{},\"read_ms\":{:.2f},\"take_in_ms\":{:.2f},"
      "\"step_ms\":{:.2f},\"routes_ms\":{:.2f},\"tick_ms\":{:.2f},\"worst_ms\":{:.2f},"
      "\"listing_bytes\":{},\"effects\":{},\"lookups\":{}}}\n",
      services, services * replicas, ticks, median(read), median(take_in), median(step),
      median(routes), whole[whole.size() / 2], whole.back(), answer.output.size(), effects,
      lookups);
  return 0;
}
