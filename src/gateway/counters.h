// Counters of one shard, and their text for Prometheus.
//
// One writer (the shard), any reader: plain relaxed atomics without locked instructions. Labels are
// bounded: statuses by class, ends by their list, no model or user names.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "http/relay.h"
#include "proto/usage.h"

namespace berth::gateway {

// A count with a single writer.
class Count {
 public:
  void add(uint64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void subtract(uint64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) - n, std::memory_order_relaxed);
  }
  uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// Durations in buckets that double from 1 ms to about 17 minutes.
struct Histogram {
  static constexpr size_t kBuckets = 21;
  std::array<Count, kBuckets + 1> buckets;  // the last: beyond all
  Count sum_us;
  void observe(int64_t us);
};

struct alignas(64) Counters {
  static constexpr size_t kEnds = static_cast<size_t>(http::RelayEnd::broken) + 1;

  std::array<Count, 6> by_class;    // answers by status / 100; [0]: the client left without one
  std::array<Count, kEnds> by_end;  // exchanges with replicas
  Count in_flight;
  Count streams;
  Count stale_retries;  // pooled connections found dead
  Count other_replica;  // requests that went on to another replica
  Count bytes_in;
  Count bytes_out;
  Count prompt_tokens;
  Count completion_tokens;
  std::array<Count, 3> usage_by_source;
  Histogram first_payload;
  Histogram total;
};

// The sums over all shards in the Prometheus text format.
std::string metrics_text(const std::vector<const Counters*>& shards);

}  // namespace berth::gateway
