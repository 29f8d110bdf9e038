// The shared folder that nodes see: what is put there, and what is taken away again.
//
//   SHARED/bin/berth-DIGEST  this very program, for jobs
//   SHARED/jobs/KEY/         a replica's join token; the working directory of its job
//   SHARED/logs/...          what jobs print, unless a service or the site says otherwise
//
// Nothing that a live job needs is removed: a sweep is told which those are. Folders of jobs are
// removed only when the token in them is ours, so that another Berth may use the same folder.
// Functions block; they run at start and on the pool. Threading: one sweep at a time.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace berth::app {

// A copy of the running program under SHARED/bin, named by its content so that a running job's
// copy is never overwritten. Returns its path. The program is read only when it is not the one
// that `remembered` (a file of the state folder; made here) names.
Result<std::string> stage_program(const std::string& shared_dir, const std::string& remembered);

// Names in SHARED/jobs. Ask for them before the set of live replicas: a folder is made after its
// replica's record, so what is then not live is over.
std::vector<std::string> job_folders(const std::string& shared_dir);

struct SharedSweep {
  std::vector<std::string> over;    // of job_folders(): belong to no live replica
  std::set<std::string> live;       // keys of live replicas: their logs stay, however old
  std::vector<std::string> needed;  // texts (job scripts) that may name a program in SHARED/bin
  std::function<std::string(const std::string& key)> join_token;
  Instant now{};
};

inline constexpr Duration kKeepPrograms = hours(24 * 30);  // since a Berth ran from them
inline constexpr Duration kKeepLogs = hours(24 * 30);      // since the last line

// Returns how much was removed. What cannot be removed stays for the next sweep.
struct Swept {
  int jobs = 0, programs = 0, logs = 0;
};
Swept sweep(const std::string& shared_dir, const std::string& program, const SharedSweep& what);

}  // namespace berth::app
