#include "model/exit_status.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

namespace berth {
namespace {

// Linux's numbers: a job's node may not be this machine, but its kernel is the same.
constexpr std::array<std::pair<int, std::string_view>, 17> kSignals{
    {{1, "SIGHUP"},
     {2, "SIGINT"},
     {3, "SIGQUIT"},
     {4, "SIGILL"},
     {5, "SIGTRAP"},
     {6, "SIGABRT"},
     {7, "SIGBUS"},
     {8, "SIGFPE"},
     {9, "SIGKILL, often the kernel when memory is short"},
     {10, "SIGUSR1"},
     {11, "SIGSEGV"},
     {12, "SIGUSR2"},
     {13, "SIGPIPE"},
     {14, "SIGALRM"},
     {15, "SIGTERM"},
     {24, "SIGXCPU"},
     {31, "SIGSYS"}}};

constexpr int kLastSignal = 31;  // of those that shells report as 128 + N in earnest

std::string by_signal(int signal) {
  for (const auto& [number, name] : kSignals)
    if (number == signal) return fmt::format("killed by signal {} ({})", signal, name);
  return fmt::format("killed by signal {}", signal);
}

}  // namespace

std::string describe_exit(std::optional<int> exit_code, std::optional<int> signal) {
  if (signal) return by_signal(*signal);
  if (!exit_code) return "exit status unknown";
  if (*exit_code > 128 && *exit_code <= 128 + kLastSignal) return by_signal(*exit_code - 128);
  if (*exit_code == 127) return "exit status 127 (command not found?)";
  if (*exit_code == 126) return "exit status 126 (command not executable?)";
  return fmt::format("exit status {}", *exit_code);
}

}  // namespace berth
