#include "agent/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>

#include "base/check.h"

namespace berth::agent {
namespace {

constexpr int kKillRounds = 8;

pid_t take_pid(std::string_view& text) {
  while (!text.empty() && text[0] == ' ') text.remove_prefix(1);
  pid_t n = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc()) return 0;
  text.remove_prefix(end - text.data());
  return n;
}

std::vector<ProcessEntry> all_processes() {
  std::vector<ProcessEntry> all;
  DIR* dir = opendir("/proc");
  if (!dir) return all;
  while (dirent* entry = readdir(dir)) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%.20s/stat", entry->d_name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;  // ended meanwhile
    char text[512];
    ssize_t n = read(fd, text, sizeof text);
    close(fd);
    if (n <= 0) continue;
    ProcessEntry process = parse_stat({text, static_cast<size_t>(n)});
    if (process.pid > 0) all.push_back(process);
  }
  closedir(dir);
  return all;
}

}  // namespace

ProcessEntry parse_stat(std::string_view line) {
  ProcessEntry entry;
  std::string_view head = line;
  entry.pid = take_pid(head);
  // The name is in parentheses and may hold any bytes, also parentheses.
  size_t close = line.rfind(')');
  if (entry.pid <= 0 || close == std::string_view::npos || close + 3 >= line.size()) return {};
  entry.state = line[close + 2];
  std::string_view rest = line.substr(close + 3);
  entry.parent = take_pid(rest);
  take_pid(rest);  // the process group
  entry.session = take_pid(rest);
  return entry;
}

std::vector<ProcessEntry> foreign_descendants(pid_t root, const std::set<pid_t>& without) {
  std::multimap<pid_t, ProcessEntry> by_parent;
  pid_t session = getsid(root);
  for (const ProcessEntry& p : all_processes()) by_parent.emplace(p.parent, p);
  std::vector<ProcessEntry> found;
  std::vector<pid_t> open{root};
  std::set<pid_t> seen{root};
  while (!open.empty()) {
    pid_t parent = open.back();
    open.pop_back();
    auto [from, to] = by_parent.equal_range(parent);
    for (auto it = from; it != to; ++it) {
      const ProcessEntry& p = it->second;
      if (without.contains(p.pid) || !seen.insert(p.pid).second) continue;
      open.push_back(p.pid);
      if (p.session != session) found.push_back(p);
    }
  }
  return found;
}

std::vector<pid_t> living_tree(const std::set<pid_t>& without) {
  std::vector<pid_t> living;
  for (const ProcessEntry& p : foreign_descendants(getpid(), without))
    if (p.state != 'Z' && p.state != 'X') living.push_back(p.pid);
  return living;
}

void reap_orphans(pid_t main, const std::set<pid_t>& without) {
  for (const ProcessEntry& p : foreign_descendants(getpid(), without))
    if (p.state == 'Z' && p.parent == getpid() && p.pid != main) waitpid(p.pid, nullptr, WNOHANG);
}

void kill_tree(const std::set<pid_t>& without) {
  for (int round = 0; round < kKillRounds; ++round) {
    std::vector<pid_t> living = living_tree(without);
    if (living.empty()) return;
    // Stopped first, so that none forks while the others are killed.
    for (pid_t pid : living) kill(pid, SIGSTOP);
    for (pid_t pid : living) kill(pid, SIGKILL);
  }
}

void set_subreaper(Subreaper value) {
  CHECK(prctl(PR_SET_CHILD_SUBREAPER, value == Subreaper::yes ? 1 : 0, 0, 0, 0) == 0);
}

}  // namespace berth::agent
