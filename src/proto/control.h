// The messages between an agent and Berth, as JSON over HTTP under /berth/v1/.
//
//   POST   /berth/v1/leases                 RegisterRequest  -> RegisterReply
//   POST   /berth/v1/leases/ID/heartbeat    HeartbeatRequest -> HeartbeatReply
//   POST   /berth/v1/leases/ID/end          EndReport        -> {}
//
// Registration comes first, as soon as the agent's front listens, in state `loading`; the replica
// gets requests only once a heartbeat says `ready` and Berth has dialled back. The register
// request proves who it is (see Credential); later ones carry "Authorization: Bearer RENEW", the
// renewal token that the agent itself made and handed over in the request.
// Documents have "v": 1. A reader ignores members it does not know and refuses another "v".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "base/time.h"
#include "model/lease.h"
#include "model/replica.h"

namespace berth::proto {

// How a registration proves its user. Sent in the header "Authorization".
//   "Munge CRED"  a MUNGE credential whose payload is the SHA-256 (hex) of the request's body
//   "Join TOKEN"  a one-time token from the replica's 0600 file (declared services)
//   "Bearer KEY"  an API key of the user
enum class CredentialKind { munge, join, key };

struct RegisterRequest {
  std::string service;      // as the agent was told: "name" or "owner/name"
  std::string replica_key;  // of a declared replica; "" when self-registered
  uint64_t job_id = 0;      // 0: not in a job (local scheduler, self-registered)
  std::string cluster;
  int restarts = 0;
  std::string node;     // as the agent knows it; for people
  std::string address;  // "host:port" of the agent's front
  std::string secret;   // the gateway shows it to the front: "Authorization: Bearer SECRET"
  std::string renew;    // renewal token, for heartbeats
  EngineKind engine = EngineKind::command;
  AccessSpec access;  // wished by a self-registered service; default: the paying project
  std::optional<Instant> stops_at;
  // How long before this message, so that nobody's clock matters; absent: not known.
  std::optional<Duration> began_ago;   // the first line of the job's script
  std::optional<Duration> engine_ago;  // exec of the engine
};

struct RegisterReply {
  std::string lease_id;
  std::string public_name;
  Duration ttl = seconds(10);
  Duration heartbeat = seconds(3);
};

struct HeartbeatRequest {
  LeaseState state = LeaseState::loading;
  std::string detail;
  std::string served_model;  // known once ready
  std::optional<int64_t> context_length;
  int in_flight = 0;  // requests the front is relaying
  std::optional<Instant> stops_at;
  std::optional<Duration> answered_ago;  // the engine's first right answer
};

// What Berth asks of the agent.
enum class Directive { none, drain };

struct HeartbeatReply {
  Directive directive = Directive::none;
  std::string why;
  Duration ttl = seconds(10);
  std::optional<Instant> job_ends_at;  // by the scheduler, where Berth follows the job
};

struct EndReport {
  EndCause cause = EndCause::completed;
  std::string detail;
  std::optional<int> exit_code;  // the engine's
  std::optional<int> signal;     // that killed the engine
};

Json to_json(const RegisterRequest&);
Json to_json(const RegisterReply&);
Json to_json(const HeartbeatRequest&);
Json to_json(const HeartbeatReply&);
Json to_json(const EndReport&);
Json to_json(const AccessSpec&);

// Errors name the member at fault.
Result<RegisterRequest> parse_register_request(std::string_view body);
Result<RegisterReply> parse_register_reply(std::string_view body);
Result<HeartbeatRequest> parse_heartbeat_request(std::string_view body);
Result<HeartbeatReply> parse_heartbeat_reply(std::string_view body);
Result<EndReport> parse_end_report(std::string_view body);
Result<AccessSpec> parse_access(const Json& document);

}  // namespace berth::proto
