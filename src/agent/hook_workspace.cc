#include "agent/hook_workspace.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/log.h"

namespace berth::agent {
namespace {

constexpr const char* kPrefix = "berth-";
constexpr const char* kNote = "agent";
constexpr size_t kTrialBytes = 64 * 1024;

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id;
}

// When a process started, in ticks since the boot; "" when it is not there.
std::string start_time(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(file, line)) return "";
  // The name may hold anything; what follows its last ')' is plain.
  size_t at = line.rfind(')');
  if (at == std::string::npos) return "";
  std::string_view rest = std::string_view(line).substr(at + 1);
  // Field 22 of the line, the 20th after the name.
  for (int field = 0; field < 20; ++field) {
    size_t space = rest.find(' ');
    if (space == std::string_view::npos) return "";
    rest.remove_prefix(space + 1);
  }
  return std::string(rest.substr(0, rest.find(' ')));
}

Error disk_error(const std::string& what, const std::string& path, int error) {
  if (error == ENOSPC || error == EDQUOT) {
    Error e = system_error(fmt::format("no space left on {}", path), error);
    e.message += "; free some, or choose another --workspace-root";
    return e;
  }
  Error e = system_error(fmt::format("{} {}", what, path), error);
  e.message += "; choose a writable, node-local --workspace-root";
  return e;
}

// Proves that there is room before an engine dies of it in some obscure way.
Status try_write(const std::string& path) {
  std::string trial = path + "/trial";
  int fd = open(trial.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC | O_EXCL, 0600);
  if (fd < 0) return disk_error("writing to", path, errno);
  std::vector<char> bytes(kTrialBytes, 'x');
  size_t done = 0;
  int error = 0;
  while (done < bytes.size() && error == 0) {
    ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno != EINTR) error = errno;
    if (n > 0) done += n;
  }
  if (error == 0 && close(fd) != 0)
    error = errno;
  else if (error != 0)
    close(fd);
  unlink(trial.c_str());
  if (error != 0) return disk_error("writing to", path, error);
  return {};
}

bool is_shared_disk(const std::string& path) {
  struct statfs info {};
  if (statfs(path.c_str(), &info) != 0) return true;
  // NFS, Lustre, GPFS, BeeGFS, CIFS, SMB2, CephFS, FUSE, 9p.
  for (uint32_t magic : {0x6969u, 0x0BD00BD0u, 0x47504653u, 0x19830326u, 0xFF534D42u, 0xFE534D42u,
                         0x00C36400u, 0x65735546u, 0x01021997u})
    if (static_cast<uint32_t>(info.f_type) == magic) return true;
  return false;
}

bool is_dead(const std::string& folder) {
  std::ifstream file(folder + "/" + kNote);
  std::string boot, started;
  pid_t pid = 0;
  if (!(file >> boot >> pid >> started)) return false;  // not whole: maybe being made right now
  if (boot != boot_id()) {
    // Another boot of this node, or, on a disk that nodes share, another node that lives.
    return !is_shared_disk(folder);
  }
  return start_time(pid) != started;
}

}  // namespace

int remove_stale_workspaces(const std::string& root) {
  DIR* dir = opendir(root.c_str());
  if (!dir) return 0;
  std::vector<std::string> stale;
  while (dirent* entry = readdir(dir)) {
    if (std::string_view(entry->d_name).substr(0, 6) != kPrefix) continue;
    std::string path = root + "/" + entry->d_name;
    struct stat info {};
    if (lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid())
      continue;
    if (is_dead(path)) stale.push_back(path);
  }
  closedir(dir);
  for (const std::string& path : stale) {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
    log_info("agent", "removed {} of an earlier agent", path);
  }
  return static_cast<int>(stale.size());
}

Result<std::unique_ptr<Workspace>> Workspace::create(const std::string& root) {
  if (root.empty() || root[0] != '/')
    return invalid_argument(fmt::format("workspace root \"{}\" must be an absolute path", root));
  if (root.size() > kMaxRootLength)
    return invalid_argument(fmt::format(
        "workspace root {}: path too long ({} > {}); sockets inside would not fit the system's {} "
        "bytes; choose a shorter --workspace-root",
        root, root.size(), kMaxRootLength, kMaxSocketPath));
  remove_stale_workspaces(root);
  std::string path = fmt::format("{}{}{}XXXXXX", root, root.back() == '/' ? "" : "/", kPrefix);
  if (!mkdtemp(path.data())) return disk_error("making a folder in", root, errno);
  std::unique_ptr<Workspace> workspace(new Workspace(path));
  std::string note = fmt::format("{} {} {}\n", boot_id(), getpid(), start_time(getpid()));
  std::ofstream file(path + "/" + kNote);
  file << note;
  file.close();
  if (!file) return disk_error("writing to", root, ENOSPC);
  if (mkdir(workspace->scratch().c_str(), 0700) != 0)
    return disk_error("making a folder in", root, errno);
  if (Status room = try_write(path); !room) {
    Error error = room.error();
    // People know the root; the random folder in it is gone by the time they read this.
    size_t at = error.message.find(path);
    if (at != std::string::npos) error.message.replace(at, path.size(), root);
    return error;
  }
  return workspace;
}

Result<std::string> Workspace::socket_path(const std::string& name) const {
  std::string path = path_ + "/" + name;
  if (path.size() > kMaxSocketPath)
    return invalid_argument(
        fmt::format("socket {}: path too long ({} > {})", path, path.size(), kMaxSocketPath));
  return path;
}

void Workspace::remove() {
  if (path_.empty()) return;
  std::error_code error;
  std::filesystem::remove_all(path_, error);
  if (error) log_warn("agent", "could not remove {}: {}", path_, error.message());
  path_.clear();
}

}  // namespace berth::agent
