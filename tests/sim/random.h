// Reproducible randomness for the simulator: one seed, one sequence, on every machine.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace berth::sim {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}

  uint64_t next() {  // splitmix64
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int below(int n) { return static_cast<int>(next() % static_cast<uint64_t>(n)); }
  bool percent(int p) { return below(100) < p; }
  Duration between(Duration a, Duration b) {
    return a + Duration(static_cast<int64_t>(next() % static_cast<uint64_t>((b - a).count() + 1)));
  }

 private:
  uint64_t state_;
};

}  // namespace berth::sim
