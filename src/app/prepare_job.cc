#include "app/prepare_job.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "app/state_dir.h"
#include "config/engines.h"
#include "model/end_lead.h"

namespace berth::app {
namespace {

std::string_view isolation_text(Isolation isolation) {
  switch (isolation) {
    case Isolation::automatic:
      return "auto";
    case Isolation::unix_socket:
      return "unix-socket";
    case Isolation::network_namespace:
      return "network-namespace";
    case Isolation::loopback:
      return "loopback";
  }
  return "auto";
}

struct Account {
  uid_t uid = 0;
  gid_t gid = 0;
  std::string home;
};

Result<Account> account_of(const std::string& user) {
  char buffer[16384];
  passwd entry{}, *found = nullptr;
  int rc = getpwnam_r(user.c_str(), &entry, buffer, sizeof buffer, &found);
  if (rc != 0) return system_error("look up user " + user, rc);
  if (!found) return not_found("user " + user + " has no account on this host");
  return Account{found->pw_uid, found->pw_gid, found->pw_dir};
}

void replace(std::string& text, std::string_view what, const std::string& with) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

// A name as one path segment.
std::string segment(std::string name) {
  for (char& c : name)
    if (c == '/' || c == ':') c = '_';
  return name;
}

std::string seconds_text(Duration d) {
  return std::to_string(std::chrono::ceil<seconds>(d).count()) + "s";
}

std::vector<std::string> agent_args(const JobSite& site, const ReplicaRecord& replica,
                                    const ServiceRecord& service, const std::string& token_path) {
  const ServiceSpec& spec = service.spec;
  std::vector<std::string> args = {"--url",          site.url,
                                   "--service",      service.public_name,
                                   "--replica-key",  replica.key,
                                   "--join-file",    token_path,
                                   "--load-timeout", seconds_text(spec.load_timeout),
                                   "--drain-grace",  seconds_text(spec.drain_grace),
                                   "--isolation",    std::string(isolation_text(spec.isolation))};
  if (!spec.model.empty()) args.insert(args.end(), {"--model", spec.model});
  if (!spec.served_model_name.empty())
    args.insert(args.end(), {"--served-model-name", spec.served_model_name});
  if (site.node_address.from == config::NodeAddressFrom::cidr)
    args.insert(args.end(), {"--address-policy", site.node_address.cidr});
  if (site.node_address.from == config::NodeAddressFrom::interface)
    args.insert(args.end(), {"--address-policy", "interface:" + site.node_address.interface});
  return args;
}

// Makes a folder and hands it to the job's user when that is somebody else.
Status folder_for(const std::string& path, unsigned mode, const Account* owner) {
  bool existed = ::access(path.c_str(), F_OK) == 0;
  if (auto s = make_folder(path, mode); !s) return s;
  if (owner && !existed && ::chown(path.c_str(), owner->uid, owner->gid) != 0)
    return system_error("give folder " + path + " to the job's user", errno);
  return {};
}

}  // namespace

std::string log_path(const JobSite& site, const ServiceRecord& service, const std::string& key) {
  std::string folder = service.spec.log_dir.empty() ? site.log_pattern : service.spec.log_dir;
  replace(folder, "{shared_dir}", site.shared_dir);
  replace(folder, "{owner}", service.owner);
  replace(folder, "{service}", segment(service.public_name));
  if (folder.find("{home}") != std::string::npos) {
    auto account = account_of(service.owner);
    replace(folder, "{home}", account ? account->home : site.shared_dir + "/logs");
  }
  return folder + "/" + key + ".log";
}

Result<sched::JobRequest> prepare_job(const JobSite& site, const ReplicaRecord& replica,
                                      const ServiceRecord& service, const std::string& join_token) {
  sched::JobRequest request;
  request.key = replica.key;
  request.resources = service.spec.resources;
  if (request.resources.account.empty()) request.resources.account = service.project;
  for (const std::string& node : replica.exclude_nodes)
    request.resources.exclude_nodes.push_back(node);
  request.log_path = log_path(site, service, replica.key);

  std::optional<Account> owner;
  if (site.submit_as == config::SubmitAs::owner) {
    auto account = account_of(service.owner);
    if (!account) return std::move(account).error();
    owner = *account;
    request.run_as = service.owner;
  }
  const Account* job_user = owner ? &*owner : nullptr;
  std::string log_folder = request.log_path.substr(0, request.log_path.rfind('/'));
  if (auto s = folder_for(log_folder, 0755, job_user); !s)
    return std::move(s).error().wrap("log folder of " + service.public_name);
  std::string folder = site.shared_dir + "/jobs/" + replica.key;
  if (auto s = folder_for(folder, 0700, job_user); !s) return std::move(s).error();
  std::string token_path = folder + "/join";
  if (auto s = write_file(token_path, join_token + "\n", 0600); !s) return std::move(s).error();
  if (job_user && ::chown(token_path.c_str(), job_user->uid, job_user->gid) != 0)
    return system_error("give " + token_path + " to the job's user", errno);
  request.work_dir = folder;
  request.signal_lead = kLimitWarning;

  sched::JobScript script;
  script.key = replica.key;
  script.launcher = site.launcher;
  script.cpus = service.spec.resources.cpus_per_task;
  script.berth = site.program;
  script.agent_args = agent_args(site, replica, service, token_path);
  script.engine_argv = config::command_line(service.spec);
  script.env = service.spec.env;
  script.setup = service.spec.setup;
  auto text = sched::render_job_script(script);
  if (!text) return std::move(text).error();
  request.script = std::move(text).value();
  return request;
}

}  // namespace berth::app
