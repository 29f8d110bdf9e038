// Instants for the tests of this folder.
#pragma once

#include "base/time.h"

namespace berth::plan {

inline Instant at(int64_t s) { return from_ms(s * 1000); }  // seconds

}  // namespace berth::plan
