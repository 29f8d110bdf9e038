// The port to durable state: services, replicas, leases, keys, grants, events.
//
// Guarantees: a commit is atomic and, once it has returned, survives `kill -9` of this process;
// with the default setting also a power cut. There is one writer at a time; a second process on
// the same state is refused when it opens it.
// Threading: methods block. load() and commit() are called from one thread at a time; events(),
// script() and history() from any, also during a commit: they see what was committed last.
// Errors: Code::conflict when a generation or unique name is taken; Code::unavailable when the
// disk says no. Nothing is half written.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/key.h"
#include "model/lease.h"
#include "model/replica.h"
#include "model/service.h"

namespace berth::store {

// An operator lets `holder` (a user, or "project:NAME") use the bare `name`.
struct GrantRecord {
  std::string name;
  std::string holder;
  std::string granted_by;
  Instant created_at{};

  bool operator==(const GrantRecord&) const = default;
};

// Something a person may want to know later; `berth explain` and the API show the newest.
struct EventRecord {
  int64_t id = 0;  // given by the store
  Instant at{};
  std::string service;      // public name or ""
  std::string replica_key;  // or ""
  std::string kind;         // "submitted", "ready", "ended", ...
  std::string text;

  bool operator==(const EventRecord&) const = default;
};

// How many ended replicas of a service the working set keeps (the store keeps them all).
inline constexpr size_t kEndedInSnapshot = 20;

// Everything the controller works on, loaded at start.
struct Snapshot {
  std::map<std::string, ServiceRecord> services;  // by public name
  std::map<std::string, ReplicaRecord> replicas;  // by key; of the ended, the newest few a service
  std::map<std::string, LeaseRecord> leases;      // by id
  std::map<std::string, KeyRecord> keys;          // by id
  std::map<std::string, GrantRecord> grants;      // by name
};

// One atomic change. Records are inserted or replaced whole, by their identity.
struct Change {
  std::vector<ServiceRecord> put_services;
  std::vector<std::string> remove_services;
  std::vector<ReplicaRecord> put_replicas;
  std::vector<std::string> remove_replicas;
  std::vector<LeaseRecord> put_leases;
  std::vector<std::string> remove_leases;
  std::vector<KeyRecord> put_keys;
  std::vector<GrantRecord> put_grants;
  std::vector<std::string> remove_grants;
  std::vector<EventRecord> events;
  // Job scripts, kept for each replica by its key.
  std::map<std::string, std::string> put_scripts;

  bool empty() const {
    return put_services.empty() && remove_services.empty() && put_replicas.empty() &&
           remove_replicas.empty() && put_leases.empty() && remove_leases.empty() &&
           put_keys.empty() && put_grants.empty() && remove_grants.empty() && events.empty() &&
           put_scripts.empty();
  }
};

class Store {
 public:
  virtual ~Store() = default;

  virtual Result<Snapshot> load() = 0;
  virtual Status commit(const Change& change) = 0;
  // The newest `limit` events, newest first, of one service ("" = all).
  virtual Result<std::vector<EventRecord>> events(const std::string& service, int limit) = 0;
  virtual Result<std::optional<std::string>> script(const std::string& replica_key) = 0;
  // The newest replicas of a service, ended ones included, newest first.
  virtual Result<std::vector<ReplicaRecord>> history(const std::string& service, int limit) = 0;
};

}  // namespace berth::store
