#include "store/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace berth::store {
namespace {

// Who holds the lock, as it wrote there.
std::string holder(int fd) {
  char text[32] = {};
  ssize_t n = pread(fd, text, sizeof text - 1, 0);
  while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' ')) text[--n] = 0;
  return n > 0 ? "process " + std::string(text) : "another process";
}

}  // namespace

std::optional<std::string> network_file_system(uint64_t magic) {
  switch (magic & 0xffffffff) {
    case 0x6969:
      return "NFS";
    case 0x517b:
      return "SMB";
    case 0xfe534d42:
      return "SMB2";
    case 0xff534d42:
      return "CIFS";
    case 0x0bd00bd0:
      return "Lustre";
    case 0x47504653:
      return "GPFS (Spectrum Scale)";
    case 0x19830326:
      return "BeeGFS";
    case 0x00c36400:
      return "CephFS";
    case 0x5346414f:
      return "AFS";
    case 0x6b414653:
      return "AFS";
    case 0x73757245:
      return "Coda";
    case 0x20030528:
      return "OrangeFS";
    case 0xaad7aaea:
      return "PanFS";
    case 0x7461636f:
      return "OCFS2";
    case 0x01161970:
      return "GFS2";
    case 0x01021997:
      return "9P";
    case 0x65735546:
      return "FUSE (SSHFS and the like)";
    default:
      return std::nullopt;
  }
}

Result<std::unique_ptr<StateDir>> StateDir::open(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return system_error("making the state folder " + path, errno);
  struct statfs where {};
  if (statfs(path.c_str(), &where) != 0)
    return system_error("looking at the state folder " + path, errno);
  if (auto kind = network_file_system(static_cast<uint64_t>(where.f_type)))
    return invalid_argument(fmt::format(
        "the state folder {} is on {}, a file system that other machines share: the database's "
        "locks do not hold there, and a lost connection would damage it. Put it on a local disk "
        "(--state DIR)",
        path, *kind));
  std::string lock = path + "/lock";
  int fd = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return system_error("opening " + lock, errno);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    int why = errno;
    std::string who = holder(fd);
    close(fd);
    if (why != EWOULDBLOCK) return system_error("locking " + lock, why);
    return Error{Code::conflict,
                 fmt::format("the state folder {} is in use by {}; stop it first, or give this one "
                             "its own folder (--state DIR)",
                             path, who),
                 Source::caller, Retry::no};
  }
  std::string pid = fmt::format("{}\n", getpid());
  if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) < 0) {
    int why = errno;
    close(fd);
    return system_error("writing " + lock, why);
  }
  return std::unique_ptr<StateDir>(new StateDir(path, fd));
}

StateDir::~StateDir() { close(lock_fd_); }

}  // namespace berth::store
