// How long to wait before the n-th repetition.
//
// base * 2^(n-1), at most cap, plus up to a quarter of that, chosen by a hash of `key`: the same
// inputs give the same wait in every run, and different keys do not knock in step. Never below
// base. n <= 0 gives zero. Total and pure.
#pragma once

#include <string_view>

#include "base/time.h"

namespace berth::plan {

Duration backoff(int n, Duration base, Duration cap, std::string_view key);

}  // namespace berth::plan
