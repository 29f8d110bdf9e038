// The embedded store: one SQLite database in the state folder.
//
// Write-ahead log, synchronous=FULL: a commit that has returned survives `kill -9`, and a power
// cut as far as the disk keeps what it acknowledged. With Durability::process it survives
// `kill -9` only; for tests and simulations.
// Records are JSON documents beside the columns that are searched. Files are 0600.
// Ownership: holds the state folder's lock while it lives.
// Threading: as in store.h; reads have a connection of their own and wait for each other only.
// Errors: see store.h; messages explain what to do about a full disk, a damaged file, a newer
// schema, a second process. After a failed commit the database is as it was before.
// Cost: a commit is one transaction and one fsync.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "store/sqlite.h"
#include "store/state_dir.h"
#include "store/store.h"

namespace berth::store {

class SqliteStore : public Store {
 public:
  enum class Durability { power_cut, process };

  // Opens or makes DIR/berth.db.
  static Result<std::unique_ptr<SqliteStore>> open(const std::string& dir,
                                                   Durability durability = Durability::power_cut);

  Result<Snapshot> load() override;
  Status commit(const Change& change) override;
  Result<std::vector<EventRecord>> events(const std::string& service, int limit) override;
  Result<std::optional<std::string>> script(const std::string& replica_key) override;
  Result<std::vector<ReplicaRecord>> history(const std::string& service, int limit) override;

 private:
  SqliteStore(std::unique_ptr<StateDir> dir, std::unique_ptr<Connection> db,
              std::unique_ptr<Connection> reader)
      : dir_(std::move(dir)), db_(std::move(db)), reader_(std::move(reader)) {}
  Status write(const Change& change);
  Status write_services(const Change& change);
  Status write_replicas(const Change& change);
  Status write_rest(const Change& change);

  std::unique_ptr<StateDir> dir_;
  std::unique_ptr<Connection> db_;
  std::mutex reading_;
  std::unique_ptr<Connection> reader_;  // for events(), script() and history()
};

}  // namespace berth::store
