// Looks at processes through /proc: whose child a process is, when it started, what environment it
// was started with.
//
// Snapshots: a process may fork or end while it is read; callers that kill look again until nothing
// is left. Zombies count as gone. Cost: one small file per process of the machine.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace berth::sched {

struct ProcessEntry {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;
  char state = '?';
  uint64_t start_ticks = 0;
};

// Reads the text of /proc/PID/stat; the command's name in it may hold anything.
std::optional<ProcessEntry> parse_process_stat(std::string_view text);
// nullopt: no such process.
std::optional<ProcessEntry> look_at_process(pid_t pid);
// Children of `root`, their children, and so on; not `root` itself.
std::vector<pid_t> descendants_of(pid_t root);
// Processes of the caller's that were started with this "NAME=value" in their environment.
std::vector<pid_t> processes_with_variable(std::string_view assignment);

}  // namespace berth::sched
