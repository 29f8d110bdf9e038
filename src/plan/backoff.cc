#include "plan/backoff.h"

#include <algorithm>
#include <string>

#include "base/id.h"

namespace berth::plan {

Duration backoff(int n, Duration base, Duration cap, std::string_view key) {
  if (n <= 0) return Duration(0);
  Duration wait = base;
  for (int i = 1; i < n && wait < cap; ++i) wait *= 2;
  wait = std::max(std::min(wait, cap), base);
  uint64_t hash = hash64(std::string(key) + '#' + std::to_string(n));
  return wait + Duration(wait.count() / 4 * static_cast<int64_t>(hash % 1000) / 1000);
}

}  // namespace berth::plan
