#include "controller/leases.h"

#include <arpa/inet.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>

#include "base/id.h"
#include "model/names.h"

namespace berth::controller {
namespace {

Error denied(std::string message) {
  return Error{Code::permission_denied, std::move(message), Source::caller, Retry::no};
}

// "10.0.0.5:40123" -> "10.0.0.5"; "[::1]:80" -> "::1"; "" when it is neither.
std::string host_of(const std::string& address) {
  if (address.empty()) return "";
  if (address[0] == '[') {
    size_t end = address.find("]:");
    return end == std::string::npos ? "" : address.substr(1, end - 1);
  }
  size_t colon = address.rfind(':');
  if (colon == std::string::npos || address.find(':') != colon) return "";
  return address.substr(0, colon);
}

bool is_loopback(const std::string& host) {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool same_host(const std::string& a, const std::string& b) {
  unsigned char x[16], y[16];
  for (int family : {AF_INET, AF_INET6})
    if (inet_pton(family, a.c_str(), x) == 1 && inet_pton(family, b.c_str(), y) == 1)
      return std::equal(x, x + (family == AF_INET ? 4 : 16), y);
  return a == b;
}

Status check_address(const proto::RegisterRequest& request, const Claim& claim) {
  std::string host = host_of(request.address);
  if (host.empty())
    return invalid_argument("registration: address \"" + request.address +
                            "\" must be HOST:PORT with a numeric host");
  if (!claim.job) {
    if (is_loopback(host)) return {};
    return denied("registration: without a Slurm job the address must be loopback, not " + host);
  }
  for (const std::string& node : claim.node_addresses)
    if (same_host(host, node)) return {};
  std::string allowed;
  for (const std::string& node : claim.node_addresses) allowed += " " + node;
  return denied(
      "registration: address " + host + " is not one of the nodes of job " +
      std::to_string(request.job_id) + ":" + (allowed.empty() ? " none known" : allowed) +
      "; `--address-policy slurm` takes that one. Where nodes have another network for this, "
      "operators set node_address.names to what they are called there");
}

}  // namespace

Leases::Leases(State& state, LeasePolicy policy, std::string site_secret)
    : state_(state), policy_(policy), site_secret_(std::move(site_secret)) {}

std::string Leases::join_token(const std::string& replica_key) const {
  unsigned char mac[EVP_MAX_MD_SIZE];
  unsigned int n = 0;
  std::string text = "join:" + replica_key;
  CHECK(HMAC(EVP_sha256(), site_secret_.data(), static_cast<int>(site_secret_.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac, &n));
  return sha256_hex(std::string_view(reinterpret_cast<char*>(mac), n));
}

Result<std::string> Leases::public_name(const proto::RegisterRequest& request, const Claim& claim,
                                        const std::string& owner,
                                        const std::string& project) const {
  std::string name = request.service;
  std::string prefix = owner + "/";
  bool prefixed = name.starts_with(prefix);
  if (prefixed) name = name.substr(prefix.size());
  if (auto status = check_service_name(name); !status) return std::move(status).error();
  auto grant = state_.snapshot().grants.find(name);
  bool granted = grant != state_.snapshot().grants.end() &&
                 (grant->second.holder == owner || grant->second.holder == "project:" + project);
  std::string full = !prefixed && (granted || claim.is_operator) ? name : prefix + name;
  if (auto it = state_.snapshot().services.find(full); it != state_.snapshot().services.end())
    return Error{Code::conflict,
                 "registration: \"" + full + "\" is a declared service of " + it->second.owner +
                     "; choose another name for a self-registered one",
                 Source::caller, Retry::no};
  return full;
}

Result<LeaseRecord> Leases::declared(const proto::RegisterRequest& request,
                                     const Claim& claim) const {
  const auto& replicas = state_.snapshot().replicas;
  auto it = replicas.find(request.replica_key);
  if (it == replicas.end() || it->second.state == ReplicaState::ended)
    return not_found("registration: no live replica \"" + request.replica_key +
                     "\"; its service was stopped or removed");
  const ReplicaRecord& replica = it->second;
  auto service = state_.snapshot().services.find(replica.service);
  if (service == state_.snapshot().services.end())
    return not_found("registration: service \"" + replica.service + "\" is gone");
  // A job's name is anybody's to choose: a MUNGE credential counts only for the very job that was
  // submitted. Before its id is known the token is the only proof.
  bool by_token = claim.kind == proto::CredentialKind::join &&
                  constant_time_equal(claim.join_token, join_token(request.replica_key));
  bool by_job = claim.kind == proto::CredentialKind::munge && claim.job && replica.job.id != 0 &&
                claim.job->ref.id == replica.job.id && claim.job->user == claim.user;
  if (!by_token && !by_job)
    return denied("registration: the credential does not belong to replica " + request.replica_key);
  bool other_job = claim.job && (claim.job->key != request.replica_key ||
                                 (replica.job.id != 0 && claim.job->ref.id != replica.job.id));
  if (other_job)
    return denied("registration: job " + std::to_string(request.job_id) +
                  " is not the job of replica " + request.replica_key);
  LeaseRecord lease;
  lease.public_name = replica.service;
  lease.replica_key = replica.key;
  lease.owner = service->second.owner;
  lease.project = service->second.project;
  lease.access = service->second.spec.access;
  return lease;
}

Result<LeaseRecord> Leases::self_registered(const proto::RegisterRequest& request,
                                            const Claim& claim) const {
  if (claim.kind == proto::CredentialKind::join)
    return denied("registration: a join token is for declared replicas only");
  if (!claim.job && (policy_.job_needed == LeasePolicy::JobNeeded::yes || request.job_id != 0))
    return denied("registration: job " + std::to_string(request.job_id) +
                  " is not a running job; register from inside a Slurm job");
  if (claim.job && claim.job->user != claim.user)
    return denied("registration: job " + std::to_string(request.job_id) + " belongs to " +
                  claim.job->user + ", not to " + claim.user);
  LeaseRecord lease;
  lease.owner = claim.user;
  lease.project = claim.job ? claim.job->account : claim.key_project;
  lease.access = request.access;
  auto name = public_name(request, claim, lease.owner, lease.project);
  if (!name) return std::move(name).error();
  lease.public_name = std::move(name).value();
  return lease;
}

Result<proto::RegisterReply> Leases::admit(const proto::RegisterRequest& request,
                                           const Claim& claim, Instant now) {
  if (claim.job && is_ended(claim.job->state))
    return denied("registration: job " + std::to_string(request.job_id) + " has ended");
  auto made =
      request.replica_key.empty() ? self_registered(request, claim) : declared(request, claim);
  if (!made) return std::move(made).error();
  if (auto status = check_address(request, claim); !status) return std::move(status).error();
  LeaseRecord lease = std::move(made).value();
  lease.id = "l_" + random_base62(16);
  if (claim.job) lease.job = claim.job->ref;
  lease.node = request.node;
  if (claim.job && !claim.job->nodes.empty()) lease.node = claim.job->nodes[0];
  lease.address = request.address;
  lease.secret = request.secret;
  lease.secret_digest = sha256_hex(request.renew);
  lease.engine = request.engine;
  lease.stops_at = request.stops_at;
  if (!lease.stops_at && claim.job) lease.stops_at = claim.job->ends_at;
  lease.registered_at = lease.renewed_at = now;
  lease.expires_at = now + policy_.ttl;
  if (request.began_ago) lease.start.began_at = now - *request.began_ago;
  if (request.engine_ago) lease.start.engine_at = now - *request.engine_ago;

  store::Change change;
  for (const auto& [id, old] : state_.snapshot().leases) {
    bool same_replica = !lease.replica_key.empty() && old.replica_key == lease.replica_key;
    bool same_job = lease.job.id != 0 && old.job.id == lease.job.id &&
                    old.job.cluster == lease.job.cluster && old.public_name == lease.public_name;
    bool same_front = old.address == lease.address && old.owner == lease.owner;
    if (same_replica || same_job || same_front) change.remove_leases.push_back(id);
  }
  change.put_leases.push_back(lease);
  change.events.push_back({0, now, lease.public_name, lease.replica_key, "registered",
                           "agent on " + lease.node + " at " + lease.address + " registered"});
  if (auto status = state_.commit(change); !status) return std::move(status).error();
  for (const std::string& id : change.remove_leases) in_flight_.erase(id);
  return proto::RegisterReply{lease.id, lease.public_name, policy_.ttl, policy_.heartbeat};
}

Result<LeaseRecord> Leases::authenticate(const std::string& lease_id,
                                         std::string_view renew) const {
  auto it = state_.snapshot().leases.find(lease_id);
  if (it == state_.snapshot().leases.end())
    return not_found("no lease \"" + lease_id + "\"; register again");
  if (!constant_time_equal(it->second.secret_digest, sha256_hex(renew)))
    return Error{Code::unauthenticated, "the renewal token is not this lease's", Source::caller,
                 Retry::no};
  return it->second;
}

bool Leases::needs_dial_back(const LeaseRecord& lease,
                             const proto::HeartbeatRequest& request) const {
  return request.state == LeaseState::ready && lease.state == LeaseState::loading;
}

Result<proto::HeartbeatReply> Leases::heartbeat(const std::string& lease_id,
                                                const proto::HeartbeatRequest& request,
                                                const Reachability& reachability, Instant now) {
  auto it = state_.snapshot().leases.find(lease_id);
  if (it == state_.snapshot().leases.end())
    return not_found("no lease \"" + lease_id + "\"; register again");
  LeaseRecord lease = it->second;
  lease.state = request.state;
  lease.detail = request.detail;
  if (!request.served_model.empty()) lease.served_model = request.served_model;
  if (request.context_length) lease.context_length = request.context_length;
  if (request.stops_at) lease.stops_at = request.stops_at;
  if (needs_dial_back(it->second, request) &&
      reachability.answer != Reachability::Answer::reachable) {
    lease.state = LeaseState::loading;
    lease.detail = reachability.detail;
  }
  if (request.answered_ago && !lease.start.answered_at)
    lease.start.answered_at = now - *request.answered_ago;
  if (lease.state == LeaseState::ready && !lease.start.routed_at) lease.start.routed_at = now;
  // A drain that Berth asked for is not undone by an agent that has not heard of it yet.
  bool drain = it->second.state == LeaseState::draining;
  if (drain) {
    lease.state = LeaseState::draining;
    lease.detail = it->second.detail;
  }
  in_flight_[lease_id] = request.in_flight;
  Instant expires_at = now + policy_.ttl;
  state_.renew_lease(lease_id, now, expires_at);
  lease.renewed_at = now;
  lease.expires_at = expires_at;
  if (!(lease == it->second)) {  // more than its times
    bool state_changed = lease.state != it->second.state;
    store::Change change;
    change.put_leases.push_back(lease);
    bool first_ready = lease.start.routed_at && !it->second.start.routed_at;
    if (state_changed)
      change.events.push_back({0, now, lease.public_name, lease.replica_key,
                               std::string(to_string(lease.state)),
                               first_ready ? describe(lease.start) : lease.detail});
    if (auto status = state_.commit(change); !status) return std::move(status).error();
  }
  proto::HeartbeatReply reply;
  reply.ttl = policy_.ttl;
  if (const ReplicaRecord* replica = state_.replica(lease.replica_key))
    reply.job_ends_at = replica->ends_at;
  if (drain) {
    reply.directive = proto::Directive::drain;
    reply.why = lease.detail;
  }
  return reply;
}

Status Leases::end(const std::string& lease_id, const proto::EndReport& report, Instant now) {
  auto it = state_.snapshot().leases.find(lease_id);
  if (it == state_.snapshot().leases.end()) return {};  // said twice: done already
  store::Change change;
  change.remove_leases.push_back(lease_id);
  change.events.push_back({0, now, it->second.public_name, it->second.replica_key, "deregistered",
                           std::string(to_string(report.cause)) + ": " + report.detail});
  if (const ReplicaRecord* replica = state_.replica(it->second.replica_key);
      replica && replica->state != ReplicaState::ended) {
    ReplicaRecord changed = *replica;
    changed.agent_end = AgentEnd{now, report.cause, report.detail, report.exit_code, report.signal};
    change.put_replicas.push_back(std::move(changed));
  }
  if (auto status = state_.commit(change); !status) return status;
  in_flight_.erase(lease_id);
  return {};
}

Status Leases::ask_drain(const std::string& lease_id, const std::string& why, Instant now) {
  auto it = state_.snapshot().leases.find(lease_id);
  if (it == state_.snapshot().leases.end() || it->second.state == LeaseState::draining) return {};
  LeaseRecord lease = it->second;
  lease.state = LeaseState::draining;
  lease.detail = why;
  store::Change change;
  change.events.push_back({0, now, lease.public_name, lease.replica_key, "draining", why});
  change.put_leases.push_back(std::move(lease));
  return state_.commit(change);
}

std::vector<LeaseRecord> Leases::expire(Instant now) {
  std::vector<LeaseRecord> expired;
  store::Change change;
  for (const auto& [id, lease] : state_.snapshot().leases) {
    if (now < lease.expires_at) continue;
    expired.push_back(lease);
    change.remove_leases.push_back(id);
    change.events.push_back({0, now, lease.public_name, lease.replica_key, "lease_expired",
                             "no heartbeat from " + lease.node + " at " + lease.address});
  }
  if (expired.empty()) return expired;
  if (auto status = state_.commit(change); !status) return {};  // tried again at the next tick
  for (const auto& lease : expired) in_flight_.erase(lease.id);
  return expired;
}

void Leases::resume(Instant now) {
  for (const auto& [id, lease] : state_.snapshot().leases)
    state_.renew_lease(id, lease.renewed_at, now + policy_.ttl);
}

int Leases::in_flight(const std::string& lease_id) const {
  auto it = in_flight_.find(lease_id);
  return it == in_flight_.end() ? 0 : it->second;
}

}  // namespace berth::controller
