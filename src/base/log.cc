#include "base/log.h"

#include <unistd.h>

#include <atomic>

#include "base/time.h"

namespace berth {
namespace {

std::atomic<LogLevel> current_level{LogLevel::info};

std::string_view name(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warn:
      return "warn";
    case LogLevel::error:
      return "error";
  }
  return "error";
}

}  // namespace

void set_log_level(LogLevel level) { current_level.store(level, std::memory_order_relaxed); }
LogLevel log_level() { return current_level.load(std::memory_order_relaxed); }

void log_line(LogLevel level, std::string_view component, std::string_view text) {
  std::string line =
      fmt::format("{} {} {}: {}\n", to_rfc3339(wall_now()), name(level), component, text);
  for (size_t i = 0; i + 1 < line.size(); ++i)
    if (static_cast<unsigned char>(line[i]) < 0x20) line[i] = ' ';  // a line stays a line
  ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  (void)written;  // standard error may be closed; there is nowhere left to say so
}

}  // namespace berth
