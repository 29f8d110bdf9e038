// sim --seeds N [--first S] | --seed S [--trace] [--flaw NAME]: runs seeds of the simulation on all
// processors, prints figures last, exits 1 with the seed to replay when an oracle was violated.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "sim/simulation.h"

namespace {

using berth::sim::Options;
using berth::sim::Outcome;

struct Totals {
  std::mutex mutex;
  int64_t virtual_ms = 0, slowest_ms = 0;
  long steps = 0, submits = 0, jobs = 0, cancels = 0, restarts = 0, ends = 0, commits = 0,
       handovers = 0;
  int failed = 0;

  void add(const Options& options, const Outcome& o) {
    std::lock_guard lock(mutex);
    virtual_ms += o.virtual_ms;
    slowest_ms = std::max(slowest_ms, o.converged_ms);
    steps += o.steps;
    submits += o.submits;
    jobs += o.jobs;
    cancels += o.cancels;
    restarts += o.restarts;
    handovers += o.handovers;
    ends += o.ends;
    commits += o.commits;
    if (o.ok()) return;
    if (++failed <= 10)
      fmt::print("seed {}: {}\n  replay: sim --seed {} --trace{}\n", options.seed, *o.violation,
                 options.seed, options.store == berth::sim::StoreKind::sqlite ? " --sqlite" : "");
  }
};

int usage() {
  fmt::print(stderr,
             "usage: sim --seeds N [--first S] [--sqlite-every K]\n"
             "       sim --seed S [--trace] [--sqlite]\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  long seeds = 0, first = 1, one = -1, sqlite_every = 20;
  Options base;
  for (int i = 1; i < argc; ++i) {
    auto value = [&]() -> long { return i + 1 < argc ? std::atol(argv[++i]) : -1; };
    if (!std::strcmp(argv[i], "--seeds"))
      seeds = value();
    else if (!std::strcmp(argv[i], "--first"))
      first = value();
    else if (!std::strcmp(argv[i], "--seed"))
      one = value();
    else if (!std::strcmp(argv[i], "--sqlite-every"))
      sqlite_every = value();
    else if (!std::strcmp(argv[i], "--sqlite"))
      base.store = berth::sim::StoreKind::sqlite;
    else if (!std::strcmp(argv[i], "--trace"))
      base.trace = Options::Trace::on;
    else
      return usage();
  }
  if (one >= 0) first = one, seeds = 1;
  if (seeds <= 0) return usage();

  auto began = std::chrono::steady_clock::now();
  Totals totals;
  std::atomic<long> next{0};
  auto work = [&] {
    for (long i; (i = next.fetch_add(1)) < seeds;) {
      Options options = base;
      options.seed = static_cast<uint64_t>(first + i);
      bool shared = one < 0 && sqlite_every > 0 && i % sqlite_every == 0;
      if (shared) options.store = berth::sim::StoreKind::sqlite;
      totals.add(options, berth::sim::simulate(options));
    }
  };
  std::vector<std::thread> threads;
  unsigned n = one >= 0 ? 1 : std::max(1u, std::thread::hardware_concurrency());
  for (unsigned i = 0; i < n; ++i) threads.emplace_back(work);
  for (std::thread& t : threads) t.join();

  double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  fmt::print("seeds {}  failed {}  wall {:.1f} s  virtual {:.1f} h\n", seeds, totals.failed, wall,
             static_cast<double>(totals.virtual_ms) / 3.6e6);
  fmt::print(
      "steps {}  commits {}  submits {}  jobs {}  cancels {}  ends {}  restarts {}  handovers {}\n",
      totals.steps, totals.commits, totals.submits, totals.jobs, totals.cancels, totals.ends,
      totals.restarts, totals.handovers);
  fmt::print("slowest convergence {:.0f} s after the faults\n",
             static_cast<double>(totals.slowest_ms) / 1000);
  return totals.failed == 0 ? 0 : 1;
}
