#include "controller/state.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace berth::controller {
namespace {

// Forgets ended replicas of `service` beyond the newest few; all of them when it is gone.
void trim_ended(store::Snapshot& snapshot, const std::string& service) {
  size_t keep = snapshot.services.contains(service) ? store::kEndedInSnapshot : 0;
  std::vector<const ReplicaRecord*> ended;
  for (const auto& [key, replica] : snapshot.replicas)
    if (replica.service == service && replica.state == ReplicaState::ended)
      ended.push_back(&replica);
  if (ended.size() <= keep) return;
  std::sort(ended.begin(), ended.end(), [](const ReplicaRecord* a, const ReplicaRecord* b) {
    return std::pair(a->intended_at, a->key) > std::pair(b->intended_at, b->key);
  });
  std::vector<std::string> gone;
  for (size_t i = keep; i < ended.size(); ++i) gone.push_back(ended[i]->key);
  for (const std::string& key : gone) snapshot.replicas.erase(key);
}

template <class Records, class Key>
auto* find_in(Records& records, const Key& key) {
  auto it = records.find(key);
  return it == records.end() ? nullptr : &it->second;
}

}  // namespace

void apply(store::Snapshot& snapshot, const store::Change& change) {
  std::set<std::string> trimmed;
  for (const auto& s : change.put_services) snapshot.services.insert_or_assign(s.public_name, s);
  for (const auto& name : change.remove_services) {
    snapshot.services.erase(name);
    trimmed.insert(name);
  }
  for (const auto& r : change.put_replicas) {
    snapshot.replicas.insert_or_assign(r.key, r);
    if (r.state == ReplicaState::ended) trimmed.insert(r.service);
  }
  for (const auto& key : change.remove_replicas) snapshot.replicas.erase(key);
  for (const auto& l : change.put_leases) snapshot.leases.insert_or_assign(l.id, l);
  for (const auto& id : change.remove_leases) snapshot.leases.erase(id);
  for (const auto& k : change.put_keys) snapshot.keys.insert_or_assign(k.id, k);
  for (const auto& g : change.put_grants) snapshot.grants.insert_or_assign(g.name, g);
  for (const auto& name : change.remove_grants) snapshot.grants.erase(name);
  for (const auto& service : trimmed) trim_ended(snapshot, service);
}

Result<State> State::load(store::Store& store) {
  Result<store::Snapshot> loaded = store.load();
  if (!loaded) return std::move(loaded).error().wrap("reading the state");
  return State(store, std::move(loaded).value());
}

Status State::commit(const store::Change& change) {
  if (change.empty()) return {};
  if (Status written = store_->commit(change); !written) return written;
  apply(snapshot_, change);
  ++revision_;
  return {};
}

bool State::renew_lease(const std::string& id, Instant renewed_at, Instant expires_at) {
  LeaseRecord* lease = find_in(snapshot_.leases, id);
  if (!lease) return false;
  // A renewal in time changes nothing that anybody decides by.
  if (lease->expires_at <= renewed_at) ++revision_;
  lease->renewed_at = renewed_at;
  lease->expires_at = expires_at;
  return true;
}

const ServiceRecord* State::service(const std::string& public_name) const {
  return find_in(snapshot_.services, public_name);
}
const ReplicaRecord* State::replica(const std::string& key) const {
  return find_in(snapshot_.replicas, key);
}
const LeaseRecord* State::lease(const std::string& id) const {
  return find_in(snapshot_.leases, id);
}

}  // namespace berth::controller
