// A lease: an agent's registration of a replica with a TTL that heartbeats renew.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "model/job.h"
#include "model/service.h"
#include "model/start_times.h"

namespace berth {

// What the agent says of its engine.
enum class LeaseState { loading, ready, unhealthy, draining };

std::string_view to_string(LeaseState state);
std::optional<LeaseState> parse_lease_state(std::string_view text);

struct LeaseRecord {
  std::string id;           // random; in the agent's URLs
  std::string public_name;  // of the service it serves
  std::string replica_key;  // "" for a self-registered replica
  std::string owner;        // user name of the job
  std::string project;      // the job's account: who pays
  AccessSpec access;        // of a self-registered service; a declared one's is in its spec
  JobRef job;
  std::string node;
  std::string address;        // "host:port" of the agent's front, as the gateway dials it
  std::string secret;         // made by the agent; the gateway shows it to the agent's front
  std::string secret_digest;  // SHA-256 of what the agent shows to renew; never the text
  std::string served_model;   // what the engine calls the model
  EngineKind engine = EngineKind::command;
  std::optional<int64_t> context_length;  // tokens
  LeaseState state = LeaseState::loading;
  std::string detail;  // for people: "loading for 12s", the engine's last words
  Instant registered_at{};
  Instant renewed_at{};
  Instant expires_at{};
  std::optional<Instant> stops_at;  // the job's end as the agent knows it
  StartTimes start;

  bool operator==(const LeaseRecord&) const = default;
};

}  // namespace berth
