// Log lines of Berth's own processes, on standard error.
//
// One line per event: "2026-11-30T19:26:05.123Z info controller: text key=value". Prompts,
// answers, keys and secrets never go in. Threading: any thread; a line is written whole.
// Cost: a system call per line; never called per request or per event of a stream.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace berth {

enum class LogLevel { debug, info, warn, error };

void set_log_level(LogLevel level);
LogLevel log_level();
void log_line(LogLevel level, std::string_view component, std::string_view text);

template <class... Args>
void log_info(std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() <= LogLevel::info)
    log_line(LogLevel::info, component, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warn(std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() <= LogLevel::warn)
    log_line(LogLevel::warn, component, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::error, component, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_debug(std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() <= LogLevel::debug)
    log_line(LogLevel::debug, component, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace berth
