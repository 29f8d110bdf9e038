// A store that keeps everything in memory: for tests and the simulator. It passes the same
// contract as the SQLite store (tests/contract/store_contract_test.cc), except that it does not
// outlive its object.
//
// Threading: as in store.h. Errors: those a test injects with fail_next().
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "store/store.h"

namespace berth::store {

class MemoryStore : public Store {
 public:
  Result<Snapshot> load() override;
  Status commit(const Change& change) override;
  Result<std::vector<EventRecord>> events(const std::string& service, int limit) override;
  Result<std::optional<std::string>> script(const std::string& replica_key) override;
  Result<std::vector<ReplicaRecord>> history(const std::string& service, int limit) override;

  // The next `times` commits fail with `error` and change nothing.
  void fail_next(int times, Error error);

 private:
  std::mutex mutex_;
  Snapshot all_;  // with every ended replica
  std::vector<EventRecord> events_;
  std::map<std::string, std::string> scripts_;
  int failures_left_ = 0;
  Error failure_;
};

}  // namespace berth::store
