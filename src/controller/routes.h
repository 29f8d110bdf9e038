// What the gateway is told: routes and keys, made from the records whenever they change.
//
// Self-registered services become routes here; those of declared services come from the
// controller, which knows their status. A replica's load counters live as long as its lease, so
// that a new snapshot does not forget what is in flight.
// Ownership: targets share the counters with the LoadTable. Threading: the control thread; what
// it returns is immutable.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "route/route_table.h"
#include "store/store.h"

namespace berth::controller {

class LoadTable {
 public:
  std::shared_ptr<route::ReplicaLoad> of(const std::string& lease_id);
  // Forgets those whose lease is gone. Requests still in flight keep their own reference.
  void keep_only(const std::map<std::string, LeaseRecord>& leases);
  size_t size() const { return loads_.size(); }

 private:
  std::map<std::string, std::shared_ptr<route::ReplicaLoad>> loads_;
};

// Connections to a front are closed by the gateway after this idle time; the agent's front keeps
// them longer.
inline constexpr Duration kFrontIdle = seconds(30);

route::Target target_of(const LeaseRecord& lease, LoadTable& loads);

// One route for each name that self-registered leases serve: ready when one of them is.
std::vector<route::Route> self_registered_routes(const store::Snapshot& snapshot, LoadTable& loads);

// Keys that are valid at all: not revoked. Expiry is checked at each request.
std::shared_ptr<const route::KeyTable> key_table(const store::Snapshot& snapshot);

}  // namespace berth::controller
