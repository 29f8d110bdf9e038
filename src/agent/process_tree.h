// The processes that descend from the agent, found in /proc.
//
// The agent makes itself a subreaper and starts the engine in a session of its own. So every
// process of the engine's tree, however often it forks, becomes a daemon or is started by a shell
// or a launcher, stays a descendant of the agent; and as sessions are inherited or new, none of
// them is in the agent's session. Commands that the agent runs for itself are in its session.
//
// Non-guarantees: a process that another daemon starts on the engine's behalf (srun's step, a
// container engine's daemon) is not a descendant; its launcher in the tree forwards the signal.
// Threading: any. Cost: a read of /proc/*/stat, about 10 us a process of the node.
#pragma once

#include <sys/types.h>

#include <set>
#include <string_view>
#include <vector>

namespace berth::agent {

struct ProcessEntry {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;
  char state = '?';  // as in /proc: 'Z' is a zombie
};

// Parses one /proc/PID/stat; pid 0 when it is none.
ProcessEntry parse_stat(std::string_view line);

// Descendants of `root` that are not in its session, without those in `without` and their
// descendants.
std::vector<ProcessEntry> foreign_descendants(pid_t root, const std::set<pid_t>& without);

// The living ones (no zombies) of this process' engine tree.
std::vector<pid_t> living_tree(const std::set<pid_t>& without);

// Takes the exit statuses of orphans that were handed to this process, other than `main`.
void reap_orphans(pid_t main, const std::set<pid_t>& without);

// Sends SIGKILL until nobody is left or a few rounds have passed.
void kill_tree(const std::set<pid_t>& without);

// Makes this process the one that orphans of its descendants are handed to, or no longer.
enum class Subreaper { yes, no };
void set_subreaper(Subreaper value);

}  // namespace berth::agent
