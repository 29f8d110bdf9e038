#include "store/memory_store.h"

#include <algorithm>

namespace berth::store {
namespace {

bool newer(const ReplicaRecord& a, const ReplicaRecord& b) {
  return std::pair(a.intended_at, a.key) > std::pair(b.intended_at, b.key);
}

}  // namespace

Result<Snapshot> MemoryStore::load() {
  std::lock_guard lock(mutex_);
  Snapshot snapshot = all_;
  std::map<std::string, std::vector<ReplicaRecord>> ended;
  for (const auto& [key, replica] : all_.replicas)
    if (replica.state == ReplicaState::ended) ended[replica.service].push_back(replica);
  for (auto& [service, replicas] : ended) {
    std::sort(replicas.begin(), replicas.end(), newer);
    size_t keep = all_.services.contains(service) ? kEndedInSnapshot : 0;
    for (size_t i = keep; i < replicas.size(); ++i) snapshot.replicas.erase(replicas[i].key);
  }
  return snapshot;
}

Status MemoryStore::commit(const Change& change) {
  std::lock_guard lock(mutex_);
  if (failures_left_ > 0) {
    --failures_left_;
    return failure_;
  }
  for (const auto& s : change.put_services) {
    auto it = all_.services.find(s.public_name);
    if (it != all_.services.end() && it->second.generation > s.generation)
      return Error{Code::conflict, "writing service " + s.public_name +
                                       ": a newer generation is stored already; read it and retry"};
  }
  for (const auto& k : change.put_keys)
    for (const auto& [id, other] : all_.keys)
      if (id != k.id && other.digest == k.digest)
        return Error{Code::conflict, "writing key " + k.id + ": its digest is another key's"};
  for (const auto& s : change.put_services) all_.services.insert_or_assign(s.public_name, s);
  for (const auto& name : change.remove_services) all_.services.erase(name);
  for (const auto& r : change.put_replicas) all_.replicas.insert_or_assign(r.key, r);
  for (const auto& key : change.remove_replicas) {
    all_.replicas.erase(key);
    scripts_.erase(key);
  }
  for (const auto& l : change.put_leases) all_.leases.insert_or_assign(l.id, l);
  for (const auto& id : change.remove_leases) all_.leases.erase(id);
  for (const auto& k : change.put_keys) all_.keys.insert_or_assign(k.id, k);
  for (const auto& g : change.put_grants) all_.grants.insert_or_assign(g.name, g);
  for (const auto& name : change.remove_grants) all_.grants.erase(name);
  for (EventRecord event : change.events) {
    event.id = static_cast<int64_t>(events_.size()) + 1;
    events_.push_back(std::move(event));
  }
  for (const auto& [key, text] : change.put_scripts) scripts_.insert_or_assign(key, text);
  return {};
}

Result<std::vector<EventRecord>> MemoryStore::events(const std::string& service, int limit) {
  std::lock_guard lock(mutex_);
  std::vector<EventRecord> out;
  for (auto it = events_.rbegin(); it != events_.rend() && std::ssize(out) < limit; ++it)
    if (service.empty() || it->service == service) out.push_back(*it);
  return out;
}

Result<std::optional<std::string>> MemoryStore::script(const std::string& replica_key) {
  std::lock_guard lock(mutex_);
  auto it = scripts_.find(replica_key);
  if (it == scripts_.end()) return std::optional<std::string>{};
  return std::optional<std::string>(it->second);
}

Result<std::vector<ReplicaRecord>> MemoryStore::history(const std::string& service, int limit) {
  std::lock_guard lock(mutex_);
  std::vector<ReplicaRecord> out;
  for (const auto& [key, replica] : all_.replicas)
    if (replica.service == service) out.push_back(replica);
  std::sort(out.begin(), out.end(), newer);
  if (std::ssize(out) > limit) out.resize(static_cast<size_t>(limit));
  return out;
}

void MemoryStore::fail_next(int times, Error error) {
  failures_left_ = times;
  failure_ = std::move(error);
}

}  // namespace berth::store
