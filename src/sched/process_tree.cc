#include "sched/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <unordered_map>

#include "sched/slurm_text.h"

namespace berth::sched {
namespace {

std::string read_proc(pid_t pid, const char* name) {
  std::string text;
  int fd = open(fmt::format("/proc/{}/{}", pid, name).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  char buffer[8192];
  ssize_t n = 0;
  while ((n = read(fd, buffer, sizeof buffer)) > 0) text.append(buffer, static_cast<size_t>(n));
  close(fd);
  return text;
}

std::vector<pid_t> all_pids() {
  std::vector<pid_t> pids;
  DIR* folder = opendir("/proc");
  if (!folder) return pids;
  while (dirent* entry = readdir(folder))
    if (auto pid = parse_count(entry->d_name)) pids.push_back(static_cast<pid_t>(*pid));
  closedir(folder);
  return pids;
}

bool is_gone(char state) { return state == 'Z' || state == 'X'; }

}  // namespace

std::optional<ProcessEntry> parse_process_stat(std::string_view text) {
  size_t open = text.find('('), close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    return std::nullopt;
  auto pid = parse_count(trim(text.substr(0, open)));
  std::vector<std::string_view> rest = split(trim(text.substr(close + 1)), " ");
  // Fields 3 (state), 4 (ppid), 6 (session) and 22 (starttime) of proc(5).
  if (!pid || rest.size() < 20 || rest[0].size() != 1) return std::nullopt;
  auto parent = parse_count(rest[1]), session = parse_count(rest[3]), start = parse_count(rest[19]);
  if (!parent || !session || !start) return std::nullopt;
  return ProcessEntry{static_cast<pid_t>(*pid), static_cast<pid_t>(*parent),
                      static_cast<pid_t>(*session), rest[0][0], *start};
}

std::optional<ProcessEntry> look_at_process(pid_t pid) {
  return parse_process_stat(read_proc(pid, "stat"));
}

std::vector<pid_t> descendants_of(pid_t root) {
  std::unordered_map<pid_t, std::vector<ProcessEntry>> children;
  for (pid_t pid : all_pids())
    if (auto process = look_at_process(pid)) children[process->parent].push_back(*process);
  std::vector<pid_t> found, open = {root};
  while (!open.empty()) {
    pid_t at = open.back();
    open.pop_back();
    auto it = children.find(at);
    if (it == children.end()) continue;
    for (const ProcessEntry& child : it->second) {
      open.push_back(child.pid);
      if (!is_gone(child.state)) found.push_back(child.pid);
    }
    children.erase(it);
  }
  return found;
}

std::vector<pid_t> processes_with_variable(std::string_view assignment) {
  std::vector<pid_t> found;
  for (pid_t pid : all_pids()) {
    std::string environment = read_proc(pid, "environ");
    std::vector<std::string_view> all = split(environment, std::string_view("\0", 1));
    if (std::find(all.begin(), all.end(), assignment) == all.end()) continue;
    auto process = look_at_process(pid);
    if (process && !is_gone(process->state)) found.push_back(pid);
  }
  return found;
}

}  // namespace berth::sched
