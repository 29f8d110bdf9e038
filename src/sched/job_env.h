// The environment that jobs start with, whoever started the daemon.
//
// Reads the user database; nothing of the daemon's own environment gets in. Threading: any.
#pragma once

#include <string>
#include <vector>

namespace berth::sched {

// PATH, LANG, and HOME, USER, LOGNAME and SHELL of `user` (empty: the daemon's own) when there is
// such a user.
std::vector<std::string> job_environment(const std::string& user, const std::string& path);

// The name of the daemon's user; its number when it has no name.
std::string own_user_name();

}  // namespace berth::sched
