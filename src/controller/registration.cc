#include "controller/registration.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>

#include "base/id.h"

namespace berth::controller {
namespace {

Error unauthenticated(std::string message) {
  return Error{Code::unauthenticated, std::move(message), Source::caller, Retry::no};
}

// Blocking.
Result<std::string> user_name(uint32_t uid) {
  char buffer[16384];
  passwd entry{}, *found = nullptr;
  int rc = getpwuid_r(uid, &entry, buffer, sizeof buffer, &found);
  if (rc != 0) return system_error("look up uid " + std::to_string(uid), rc);
  if (!found) return unauthenticated("uid " + std::to_string(uid) + " has no account on this host");
  return std::string(found->pw_name);
}

// Blocking. Numeric addresses of what the scheduler calls its nodes.
std::vector<std::string> resolve(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const std::string& name : names) {
    addrinfo hints{}, *list = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(name.c_str(), nullptr, &hints, &list) != 0) continue;
    for (addrinfo* a = list; a; a = a->ai_next) {
      char text[INET6_ADDRSTRLEN] = "";
      if (getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) ==
              0 &&
          std::find(out.begin(), out.end(), text) == out.end())
        out.push_back(text);
    }
    freeaddrinfo(list);
  }
  return out;
}

struct JobFacts {
  std::optional<sched::JobIdentity> job;
  std::vector<std::string> addresses;
};

bool leads_back_here(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address.starts_with("::ffff:127.");
}

// Adds what the operators' names of the job's nodes resolve to. A name that stands for loopback
// here (127.0.1.1 in /etc/hosts) would lead the gateway to its own machine.  A23
void add_by_names(const sched::JobIdentity& job, const std::vector<std::string>& patterns,
                  std::vector<std::string>& addresses) {
  constexpr std::string_view kNode = "{node}";
  bool local = std::any_of(addresses.begin(), addresses.end(), leads_back_here);
  std::vector<std::string> names;
  for (const std::string& node : job.nodes)
    for (std::string name : patterns) {
      size_t at = name.find(kNode);
      if (at == std::string::npos) continue;
      names.push_back(name.replace(at, kNode.size(), node));
    }
  for (std::string& address : resolve(names))
    if (local || !leads_back_here(address)) addresses.push_back(std::move(address));
}

Result<JobFacts> job_facts(sched::Scheduler& scheduler, uint64_t id,
                           const std::vector<std::string>& node_names) {
  auto found = scheduler.identify(id);
  if (!found) return std::move(found).error();
  JobFacts facts;
  facts.job = std::move(found).value();
  if (facts.job) {
    facts.addresses = resolve(facts.job->addresses);
    add_by_names(*facts.job, node_names, facts.addresses);
  }
  return facts;
}

Result<std::string> munge_user(const RegistrationPorts& ports, const std::string& credential,
                               const std::string& body) {
  auto proof = ports.decode_munge(credential);
  if (!proof) return std::move(proof).error();
  if (proof->payload != sha256_hex(body))
    return unauthenticated("the MUNGE credential was made for another request");
  return user_name(proof->uid);
}

}  // namespace

runtime::Task<Result<Claim>> verify_registration(const RegistrationPorts& ports,
                                                 std::string authorization, std::string body,
                                                 proto::RegisterRequest request) {
  Claim claim;
  size_t space = authorization.find(' ');
  std::string scheme = authorization.substr(0, space);
  std::string credential =
      space == std::string::npos ? std::string() : authorization.substr(space + 1);
  const RegistrationPorts* p = &ports;
  if (scheme == "Munge") {
    claim.kind = proto::CredentialKind::munge;
    auto decode = [p, credential, body] { return munge_user(*p, credential, body); };
    auto user = co_await ports.pool.run(decode);
    if (!user) co_return std::move(user).error();
    claim.user = std::move(user).value();
  } else if (scheme == "Join") {
    claim.kind = proto::CredentialKind::join;
    claim.join_token = credential;
  } else if (scheme == "Bearer") {
    claim.kind = proto::CredentialKind::key;
    auto keys = ports.keys();
    const auto* entry = keys->find(sha256_hex(credential), ports.clock());
    if (!entry) co_return unauthenticated("registration: no valid API key");
    claim.user = entry->caller.user;
    claim.key_project = entry->caller.project;
    claim.is_operator = entry->caller.role == route::Caller::Role::operator_;
  } else {
    co_return unauthenticated(
        "registration: send a MUNGE credential, a join token or an API key in the header "
        "Authorization");
  }
  if (request.job_id != 0) {
    uint64_t id = request.job_id;
    auto ask = [p, id] { return job_facts(p->scheduler, id, p->node_names); };
    auto facts = co_await ports.pool.run(ask);
    if (!facts)
      co_return std::move(facts).error().wrap("registration: whose job is " + std::to_string(id));
    claim.job = std::move(facts->job);
    claim.node_addresses = std::move(facts->addresses);
    if (claim.job && claim.kind == proto::CredentialKind::join) claim.user = claim.job->user;
  }
  co_return claim;
}

}  // namespace berth::controller
