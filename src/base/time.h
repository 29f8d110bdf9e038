// Instants and durations.
//
// Instant is wall-clock time in milliseconds since 1970 UTC: what Slurm reports, what is stored
// and what the cores (plan, lifecycle) compare. The cores never read a clock: they are given one.
// Waiting is done in runtime/ on the monotonic clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace berth {

using Duration = std::chrono::milliseconds;
using Instant = std::chrono::time_point<std::chrono::system_clock, Duration>;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

inline constexpr int64_t to_ms(Instant t) { return t.time_since_epoch().count(); }
inline constexpr Instant from_ms(int64_t ms) { return Instant(Duration(ms)); }

// The current wall-clock time. Only shells (runtime, adapters, app) call it.
Instant wall_now();

// A clock handed to roles, so that tests can turn it by hand.
using Clock = std::function<Instant()>;

// "2026-11-30T19:26:05.123Z".
std::string to_rfc3339(Instant t);
// Accepts what to_rfc3339 writes, with or without fraction, with Z or a numeric offset.
std::optional<Instant> parse_rfc3339(std::string_view text);

// For people: "850ms", "42s", "3m05s", "2h14m", "5d03h".
std::string to_human(Duration d);
// Accepts "90", "90s", "250ms", "5m", "2h", "1d" and Slurm's forms "M:S", "H:M:S", "D-H",
// "D-H:M", "D-H:M:S". A bare number is seconds. nullopt when it is none of these or is over
// ten years.
std::optional<Duration> parse_duration(std::string_view text);

}  // namespace berth
