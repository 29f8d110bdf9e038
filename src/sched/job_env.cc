#include "sched/job_env.h"

#include <pwd.h>
#include <unistd.h>

#include <optional>

namespace berth::sched {
namespace {

struct UserEntry {
  std::string name, home, shell;
};

std::optional<UserEntry> look_up_user(const std::string& name) {
  std::vector<char> buffer(16384);
  passwd entry{};
  passwd* found = nullptr;
  if (name.empty())
    getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found);
  else
    getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (!found) return std::nullopt;
  return UserEntry{entry.pw_name, entry.pw_dir, entry.pw_shell};
}

}  // namespace

std::vector<std::string> job_environment(const std::string& user, const std::string& path) {
  std::vector<std::string> env = {"PATH=" + path, "LANG=C.UTF-8"};
  if (auto entry = look_up_user(user)) {
    env.push_back("HOME=" + entry->home);
    env.push_back("USER=" + entry->name);
    env.push_back("LOGNAME=" + entry->name);
    env.push_back("SHELL=" + (entry->shell.empty() ? "/bin/sh" : entry->shell));
  }
  return env;
}

std::string own_user_name() {
  auto user = look_up_user("");
  return user ? user->name : std::to_string(geteuid());
}

}  // namespace berth::sched
