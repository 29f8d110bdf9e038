// The agent's own folder on its node: sockets, and the engine's temporary files.
//
// A folder of mode 0700 named "<root>/berth-XXXXXX" with "tmp/" for the engine and a note of whose
// it is. The root is short (at most 40 characters), so that UNIX socket paths inside stay below
// the system's 107 bytes whatever TMPDIR the job has (A19).
// Guarantees: nobody else can have made or can enter the folder. Folders left on this node by
// agents of this user that are dead (this boot, or an earlier one) are removed; no others.
// Ownership: the folder is removed, with what is inside, by the destructor or remove().
// Errors: a root that is too long, missing or not writable; "no space left on <root>".
// Cost: some system calls and one write of 64 KiB; a look into each "<root>/berth-*" of this user.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace berth::agent {

inline constexpr size_t kMaxRootLength = 40;
inline constexpr size_t kMaxSocketPath = 107;

class Workspace {
 public:
  static Result<std::unique_ptr<Workspace>> create(const std::string& root);
  ~Workspace() { remove(); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  const std::string& path() const { return path_; }
  std::string scratch() const { return path_ + "/tmp"; }
  // A path for a UNIX socket in here, or "path too long (n > 107)".
  Result<std::string> socket_path(const std::string& name) const;
  void remove();

 private:
  explicit Workspace(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Removes what dead agents of this user left under `root`; returns how many folders.
int remove_stale_workspaces(const std::string& root);

}  // namespace berth::agent
