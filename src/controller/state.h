// The controller's state: everything durable, held in memory, and the one way to change it.
//
// commit() writes a Change to the store and, only when that has succeeded, applies it to the
// snapshot. Whoever holds a State therefore reads what is on disk, never what is hoped for.
// Guarantees: a failed commit changes nothing, here or on disk. revision() rises with each change
// that readers of the snapshot could see.
// Not guaranteed: renew_lease() is for memory only. A crash loses renewals, which is harmless: no
// lease expires before a full grace after a start (plan/observed.h, FeedObserved).
// Ownership: the store outlives the State. The snapshot's address is stable; references into it
// are good until the next commit.
// Threading: the control thread only. It is the one writer and may wait for its own commits, which
// take milliseconds; nothing on the request path waits for it (docs/adr/0002).
// Errors: those of store::Store::commit.
// Cost: a commit is one transaction; applying is logarithmic in the number of records.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "store/store.h"

namespace berth::controller {

class State {
 public:
  // Reads everything from the store.
  static Result<State> load(store::Store& store);

  const store::Snapshot& snapshot() const { return snapshot_; }
  uint64_t revision() const { return revision_; }

  // All of the change or nothing. An empty change is a success and costs nothing.
  Status commit(const store::Change& change);

  // A heartbeat arrived: new times only. Whatever else changes in a lease is committed. False: no
  // such lease.
  bool renew_lease(const std::string& id, Instant renewed_at, Instant expires_at);

  // Events, scripts and history are read from the store when somebody asks.
  store::Store& store() { return *store_; }

  // nullptr when there is none.
  const ServiceRecord* service(const std::string& public_name) const;
  const ReplicaRecord* replica(const std::string& key) const;
  const LeaseRecord* lease(const std::string& id) const;

 private:
  State(store::Store& store, store::Snapshot snapshot)
      : store_(&store), snapshot_(std::move(snapshot)) {}

  store::Store* store_;
  store::Snapshot snapshot_;
  uint64_t revision_ = 1;
};

// Applies a change to a snapshot as a store does: records are inserted or replaced whole. Of the
// ended replicas of a service, only the newest store::kEndedInSnapshot stay; those of removed
// services go.
void apply(store::Snapshot& snapshot, const store::Change& change);

}  // namespace berth::controller
