// Registrations of agents: who may register what, and which leases are alive.
//
// Pure over State: every decision takes what the shell has verified (Claim) and the time. The
// shell (registration.h) decodes credentials, asks the scheduler whose job it is, and dials back.
//
// Rules, in the order they are checked:
//  - The job must be alive and be the caller's (uid), unless the claim comes from an API key on a
//    site without a job for it (the local scheduler).
//  - The address must be one of the job's nodes, as the scheduler or the operators' names for them
//    say (registration.h), never by the agent's word; without a job it must be loopback.
//  - A declared replica (replica_key) is registered only with its join token, or by the very job
//    that was submitted for it: a job's name proves nothing, anybody may choose it.
//  - A self-registered service is called "owner/name"; the bare "name" needs an operator's grant
//    to the owner or to the project that pays. A declared service's name cannot be taken.
// A job that registers again (agent restarted, Berth forgot) replaces its own earlier lease.
//
// Expiry: a lease not renewed within its TTL is removed by expire(). Renewals are kept in memory
// only; after a restart of Berth every lease gets one full TTL from resume().
// Ownership: State outlives this. Threading: the control thread only.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "controller/state.h"
#include "proto/control.h"
#include "sched/sched.h"

namespace berth::controller {

// What is known for certain about the one who registers.
struct Claim {
  proto::CredentialKind kind = proto::CredentialKind::key;
  std::string user;
  std::string key_project;  // of the API key; "" for others
  bool is_operator = false;
  std::string join_token;  // as shown; "" for others
  // The job the request names, as the scheduler knows it; nullopt: no such live job.
  std::optional<sched::JobIdentity> job;
  // The job's nodes as numeric addresses.
  std::vector<std::string> node_addresses;
};

struct LeasePolicy {
  Duration ttl = seconds(10);
  Duration heartbeat = seconds(3);
  // Whether a registration may come without a job (local scheduler only).
  enum class JobNeeded { yes, no } job_needed = JobNeeded::yes;
};

class Leases {
 public:
  // `site_secret`: what join tokens are derived from; see join_token().
  Leases(State& state, LeasePolicy policy, std::string site_secret);

  // The token that proves a job is the one Berth submitted for `replica_key`. Written to a 0600
  // file for the job's user, never stored.
  std::string join_token(const std::string& replica_key) const;

  Result<proto::RegisterReply> admit(const proto::RegisterRequest& request, const Claim& claim,
                                     Instant now);

  // Code::not_found: no such lease, register again. Code::unauthenticated: wrong token.
  Result<LeaseRecord> authenticate(const std::string& lease_id, std::string_view renew) const;

  // Renews and applies what the agent says. `ready` is applied only when `reachable`; otherwise
  // the lease stays `loading` with `unreachable` as its detail.
  struct Reachability {
    enum class Answer { not_asked, reachable, unreachable } answer = Answer::not_asked;
    std::string detail;
  };
  Result<proto::HeartbeatReply> heartbeat(const std::string& lease_id,
                                          const proto::HeartbeatRequest& request,
                                          const Reachability& reachability, Instant now);
  // Whether a heartbeat that says `ready` needs a dial-back first.
  bool needs_dial_back(const LeaseRecord& lease, const proto::HeartbeatRequest& request) const;

  // Removes the lease; what the agent said is kept in the replica's record for the controller.
  Status end(const std::string& lease_id, const proto::EndReport& report, Instant now);
  // Takes the replica out of routing at once and asks its agent to drain at the next heartbeat.
  // A draining lease never becomes ready again. No such lease: done already.
  Status ask_drain(const std::string& lease_id, const std::string& why, Instant now);

  // Removes what has expired and returns it. Does nothing while frozen.
  std::vector<LeaseRecord> expire(Instant now);
  // After a restart or a stale feed: every lease gets a full TTL from now.
  void resume(Instant now);

  // Requests in flight as the agent last said.
  int in_flight(const std::string& lease_id) const;

 private:
  Result<std::string> public_name(const proto::RegisterRequest& request, const Claim& claim,
                                  const std::string& owner, const std::string& project) const;
  Result<LeaseRecord> declared(const proto::RegisterRequest& request, const Claim& claim) const;
  Result<LeaseRecord> self_registered(const proto::RegisterRequest& request,
                                      const Claim& claim) const;

  State& state_;
  LeasePolicy policy_;
  std::string site_secret_;
  std::map<std::string, int> in_flight_;  // by lease id, as last said
};

}  // namespace berth::controller
