#include "controller/routes.h"

namespace berth::controller {

std::shared_ptr<route::ReplicaLoad> LoadTable::of(const std::string& lease_id) {
  auto& load = loads_[lease_id];
  if (!load) load = std::make_shared<route::ReplicaLoad>();
  return load;
}

void LoadTable::keep_only(const std::map<std::string, LeaseRecord>& leases) {
  std::erase_if(loads_, [&](const auto& entry) { return !leases.count(entry.first); });
}

route::Target target_of(const LeaseRecord& lease, LoadTable& loads) {
  route::Target target;
  target.lease_id = lease.id;
  target.address = lease.address;
  target.secret = lease.secret;
  target.served_model = lease.served_model;
  target.engine = lease.engine;
  target.idle_limit = kFrontIdle;
  target.load = loads.of(lease.id);
  return target;
}

std::vector<route::Route> self_registered_routes(const store::Snapshot& snapshot,
                                                 LoadTable& loads) {
  std::map<std::string, route::Route> by_name;
  for (const auto& [id, lease] : snapshot.leases) {
    // One that drains has left the catalogue; it only finishes what it began.
    if (!lease.replica_key.empty() || lease.state == LeaseState::draining) continue;
    auto [it, first] = by_name.try_emplace(lease.public_name);
    route::Route& r = it->second;
    if (first) {
      r.public_name = lease.public_name;
      r.owner = lease.owner;
      r.project = lease.project;
      r.access = lease.access;
      r.created_at = lease.registered_at;
      r.status = ServiceStatus::starting;
      r.status_text = lease.detail.empty() ? std::string(to_string(lease.state)) : lease.detail;
    }
    r.created_at = std::min(r.created_at, lease.registered_at);
    if (lease.context_length) r.context_length = lease.context_length;
    if (lease.state == LeaseState::ready) {
      r.status = ServiceStatus::ready;
      r.status_text = "ready";
      r.targets.push_back(target_of(lease, loads));
    }
  }
  std::vector<route::Route> routes;
  for (auto& [name, r] : by_name) routes.push_back(std::move(r));
  return routes;
}

std::shared_ptr<const route::KeyTable> key_table(const store::Snapshot& snapshot) {
  std::unordered_map<std::string, route::KeyTable::Entry> entries;
  for (const auto& [id, key] : snapshot.keys) {
    if (key.revoked_at) continue;
    route::KeyTable::Entry entry;
    entry.caller.key_id = key.id;
    entry.caller.user = key.user;
    entry.caller.project = key.project;
    entry.caller.groups = key.groups;
    entry.caller.role = key.role == KeyRecord::Role::operator_ ? route::Caller::Role::operator_
                                                               : route::Caller::Role::user;
    entry.expires_at = key.expires_at;
    entries.emplace(key.digest, std::move(entry));
  }
  return std::make_shared<const route::KeyTable>(std::move(entries));
}

}  // namespace berth::controller
