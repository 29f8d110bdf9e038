// The folder that holds Berth's local state: on a local disk, ours alone, and held by one process.
//
// open() makes the folder (0700) when it is missing, refuses network file systems (SQLite's locks
// and write-ahead log are not safe there) and takes an exclusive lock that lasts until the object
// or the process is gone, however it ends.
// Ownership: the object holds the lock. Threading: any.
// Errors: Code::conflict when another process holds it, naming its pid; Code::invalid_argument for
// a network file system; Code::unavailable when the disk says no.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"

namespace berth::store {

// "NFS", "Lustre", ...; nullopt for what is not known to be shared between machines. `magic` is
// statfs(2)'s f_type.
std::optional<std::string> network_file_system(uint64_t magic);

class StateDir {
 public:
  static Result<std::unique_ptr<StateDir>> open(const std::string& path);
  ~StateDir();
  StateDir(const StateDir&) = delete;
  StateDir& operator=(const StateDir&) = delete;

  const std::string& path() const { return path_; }

 private:
  StateDir(std::string path, int lock_fd) : path_(std::move(path)), lock_fd_(lock_fd) {}

  std::string path_;
  int lock_fd_;
};

}  // namespace berth::store
