// What can be called now: an immutable snapshot of services and their replicas for the gateway.
//
// The control side builds a RouteTable from records and leases and publishes it to every shard's
// mailbox; a shard keeps a shared_ptr to the newest. Load counters are shared between snapshots
// and shards, so that a new table does not forget what is in flight.
// Threading: const after building; ReplicaLoad is atomic.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "model/lease.h"
#include "model/service.h"

namespace berth::route {

// Outstanding requests of one replica over all shards. Alone on its cache line.
struct alignas(64) ReplicaLoad {
  std::atomic<int32_t> outstanding{0};
  std::atomic<uint32_t> consecutive_failures{0};
};

// A replica that takes requests.
struct Target {
  std::string lease_id;
  std::string address;       // "host:port" of the agent's front, or "unix:/path"
  std::string secret;        // shown to the front as a bearer token
  std::string served_model;  // what the engine calls the model
  EngineKind engine = EngineKind::command;
  Duration idle_limit = seconds(4);  // pooled connections are closed before the peer does
  std::shared_ptr<ReplicaLoad> load;
};

using berth::ServiceStatus;
using berth::to_string;

struct Route {
  std::string public_name;
  std::string owner;
  std::string project;
  AccessSpec access;
  ServiceStatus status = ServiceStatus::starting;
  std::string status_text;  // for people, in the 503: "waiting: Resources since 3m05s"
  Duration retry_after = seconds(10);
  std::optional<int64_t> context_length;
  Instant created_at{};
  std::vector<Target> targets;  // ready ones only
};

// The caller of a request: what access is decided on.
struct Caller {
  std::string key_id;
  std::string user;
  std::string project;
  std::vector<std::string> groups;
  enum class Role { user, operator_ } role = Role::user;
};

// Owner, paying project, whoever the access lists name, everybody, and operators.
bool may_use(const Route& route, const Caller& caller);

class RouteTable {
 public:
  explicit RouteTable(std::vector<Route> routes);

  // By what a client puts in `model`: the public name, or "name" for the caller's own "user/name".
  // nullptr when there is none or the caller may not see it (both are a 404).
  const Route* find(std::string_view model, const Caller& caller) const;
  // What the caller may see, by public name.
  std::vector<const Route*> visible(const Caller& caller) const;

 private:
  std::map<std::string, Route, std::less<>> routes_;
};

// The target with the fewest outstanding requests; among equals, rotates by `ticket`. Skips the
// lease ids in `tried`. nullptr when none is left.
const Target* pick(const Route& route, uint64_t ticket, const std::vector<std::string>& tried);

// Keys by digest. Immutable.
class KeyTable {
 public:
  struct Entry {
    Caller caller;
    std::optional<Instant> expires_at;
  };
  // `entries`: SHA-256 hex digest of the key -> who it is. Revoked keys are left out.
  explicit KeyTable(std::unordered_map<std::string, Entry> entries)
      : entries_(std::move(entries)) {}

  // nullptr: unknown or expired; the caller cannot tell which.
  const Entry* find(const std::string& digest, Instant now) const;
  size_t size() const { return entries_.size(); }

 private:
  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace berth::route
