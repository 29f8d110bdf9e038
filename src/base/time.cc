#include "base/time.h"

#include <fmt/format.h>

#include <charconv>
#include <ctime>

namespace berth {
namespace {

// Reads digits at the front of `text` and removes them.
std::optional<int64_t> take_number(std::string_view& text) {
  int64_t n = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end == text.data() || n < 0) return std::nullopt;
  text.remove_prefix(end - text.data());
  return n;
}

constexpr int64_t kTenYears = int64_t{10} * 366 * 86400;

}  // namespace

Instant wall_now() {
  return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
}

std::string to_rfc3339(Instant t) {
  int64_t ms = to_ms(t);
  std::time_t s = ms / 1000;
  int64_t rest = ms % 1000;
  if (rest < 0) {
    rest += 1000;
    --s;
  }
  std::tm tm{};
  gmtime_r(&s, &tm);
  if (tm.tm_year + 1900 < 0 || tm.tm_year + 1900 > 9999) {
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", tm.tm_year + 1900,
                       tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, rest);
  }
  // By hand: access logs write one for every request, and fmt takes ten times as long.
  std::string out = "0000-00-00T00:00:00.000Z";
  auto put = [&out](size_t last, int64_t value) {
    for (; value > 0; value /= 10) out[last--] = static_cast<char>('0' + value % 10);
  };
  put(3, tm.tm_year + 1900);
  put(6, tm.tm_mon + 1);
  put(9, tm.tm_mday);
  put(12, tm.tm_hour);
  put(15, tm.tm_min);
  put(18, tm.tm_sec);
  put(22, rest);
  return out;
}

std::optional<Instant> parse_rfc3339(std::string_view text) {
  std::tm tm{};
  int fields[6];
  const char separators[6] = {'-', '-', 'T', ':', ':', 0};
  for (int i = 0; i < 6; ++i) {
    size_t width = i == 0 ? 4 : 2;
    if (text.size() < width) return std::nullopt;
    std::string_view digits = text.substr(0, width);
    auto n = take_number(digits);
    if (!n || !digits.empty()) return std::nullopt;
    fields[i] = static_cast<int>(*n);
    text.remove_prefix(width);
    if (separators[i]) {
      if (text.empty() || text[0] != separators[i]) return std::nullopt;
      text.remove_prefix(1);
    }
  }
  if (fields[1] < 1 || fields[1] > 12 || fields[2] < 1 || fields[2] > 31 || fields[3] > 23 ||
      fields[4] > 59 || fields[5] > 60)
    return std::nullopt;
  tm.tm_year = fields[0] - 1900;
  tm.tm_mon = fields[1] - 1;
  tm.tm_mday = fields[2];
  tm.tm_hour = fields[3];
  tm.tm_min = fields[4];
  tm.tm_sec = fields[5];
  int64_t ms = static_cast<int64_t>(timegm(&tm)) * 1000;
  if (!text.empty() && text[0] == '.') {
    text.remove_prefix(1);
    int64_t scale = 100;
    bool any = false;
    while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
      ms += (text[0] - '0') * scale;
      scale /= 10;
      any = true;
      text.remove_prefix(1);
    }
    if (!any) return std::nullopt;
  }
  if (text == "Z") return from_ms(ms);
  if (text.size() != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':') return std::nullopt;
  std::string_view h = text.substr(1, 2), m = text.substr(4, 2);
  auto hh = take_number(h), mm = take_number(m);
  if (!hh || !mm || !h.empty() || !m.empty()) return std::nullopt;
  int64_t offset = (*hh * 60 + *mm) * 60000;
  return from_ms(text[0] == '+' ? ms - offset : ms + offset);
}

std::string to_human(Duration d) {
  int64_t ms = d.count();
  if (ms < 0) return "-" + to_human(-d);
  if (ms < 1000) return fmt::format("{}ms", ms);
  int64_t s = ms / 1000;
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
  return fmt::format("{}d{:02}h", s / 86400, s / 3600 % 24);
}

std::optional<Duration> parse_duration(std::string_view text) {
  auto first = take_number(text);
  if (!first || *first > kTenYears) return std::nullopt;
  auto bounded = [](int64_t s) -> std::optional<Duration> {
    if (s > kTenYears) return std::nullopt;
    return Duration(s * 1000);
  };
  if (text.empty() || text == "s") return bounded(*first);
  if (text == "ms") return Duration(*first);
  if (text == "m") return bounded(*first * 60);
  if (text == "h") return bounded(*first * 3600);
  if (text == "d") return bounded(*first * 86400);
  int64_t days = 0, parts[3] = {*first, 0, 0};
  int count = 1;
  bool with_days = text[0] == '-';
  if (with_days) {
    days = *first;
    text.remove_prefix(1);
    auto h = take_number(text);
    if (!h) return std::nullopt;
    parts[0] = *h;
  }
  while (!text.empty()) {
    if (text[0] != ':' || count == 3) return std::nullopt;
    text.remove_prefix(1);
    auto n = take_number(text);
    if (!n) return std::nullopt;
    parts[count++] = *n;
  }
  for (int64_t p : parts)
    if (p > kTenYears) return std::nullopt;
  if (with_days) return bounded(days * 86400 + parts[0] * 3600 + parts[1] * 60 + parts[2]);
  if (count == 1) return std::nullopt;
  if (count == 2) return bounded(parts[0] * 60 + parts[1]);
  return bounded(parts[0] * 3600 + parts[1] * 60 + parts[2]);
}

}  // namespace berth
