#include "model/start_times.h"

#include <fmt/format.h>

namespace berth {
namespace {

void add(std::string& text, std::string_view what, const std::optional<Instant>& from,
         const std::optional<Instant>& to) {
  if (!from || !to) return;
  double seconds = static_cast<double>((*to - *from).count()) / 1000;
  text += fmt::format("{}{} {:.2f} s", text.empty() ? "" : ", ", what, seconds);
}

}  // namespace

std::string describe(const StartTimes& start) {
  std::string text;
  add(text, "to the engine", start.began_at, start.engine_at);
  add(text, "to its first right answer", start.engine_at, start.answered_at);
  add(text, "to requests", start.answered_at, start.routed_at);
  return text;
}

}  // namespace berth
