// From a replica's record to what the scheduler is asked: script, join token, folders.
//
// Everything a job needs is under SHARED/jobs/KEY/ (0700, the job's user): the token file. The
// engine's output goes to log_path(). prepare_job() blocks and runs on the pool.
#pragma once

#include <string>

#include "base/result.h"
#include "config/config.h"
#include "model/replica.h"
#include "model/service.h"
#include "sched/job_script.h"
#include "sched/sched.h"

namespace berth::app {

struct JobSite {
  std::string shared_dir;
  std::string log_pattern;  // with {owner} {home} {shared_dir} {service}
  std::string program;      // this binary, as nodes see it
  std::string url;          // of the gateway, as nodes reach it
  sched::JobScript::Launcher launcher = sched::JobScript::Launcher::srun;
  config::SubmitAs submit_as = config::SubmitAs::daemon;
  config::NodeAddressConfig node_address;
};

// Where the replica's output is written.
std::string log_path(const JobSite& site, const ServiceRecord& service, const std::string& key);

// Errors name the folder or value at fault; nothing is submitted then (A17).
Result<sched::JobRequest> prepare_job(const JobSite& site, const ReplicaRecord& replica,
                                      const ServiceRecord& service, const std::string& join_token);

}  // namespace berth::app
