#include "agent/hook_isolation.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace berth::agent {
namespace {

constexpr int kBatch = 16;
constexpr int kReplyTimeoutS = 5;

// What the keeper says once: 0, or the step that failed and its errno.
struct Hello {
  int step = 0;
  int error = 0;
};
enum KeeperStep { kOk, kUnshare, kMapIds, kLoopback };
const char* const kStepNames[] = {"", "making a user and network namespace",
                                  "mapping the user into the namespace",
                                  "bringing up loopback in the namespace"};

// --- in the keeper, after a fork without exec: only async-signal-safe calls -------------------

bool write_file(const char* path, const char* text, size_t size) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool ok = write(fd, text, size) == static_cast<ssize_t>(size);
  int error = errno;
  close(fd);
  errno = error;
  return ok;
}

bool bring_up_loopback() {
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", 3);
  bool ok = ioctl(fd, SIOCGIFFLAGS, &request) == 0;
  request.ifr_flags |= IFF_UP | IFF_RUNNING;
  ok = ok && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
  int error = errno;
  close(fd);
  errno = error;
  return ok;
}

struct IdMaps {
  char uid[48];
  size_t uid_size;
  char gid[48];
  size_t gid_size;
};

int enter_new_network(bool with_user, const IdMaps& maps) {
  if (unshare(CLONE_NEWNET | (with_user ? CLONE_NEWUSER : 0)) != 0) return kUnshare;
  if (with_user) {
    // Without this an unprivileged gid map is refused; old kernels have no such file.
    write_file("/proc/self/setgroups", "deny", 4);
    if (!write_file("/proc/self/uid_map", maps.uid, maps.uid_size)) return kMapIds;
    if (!write_file("/proc/self/gid_map", maps.gid, maps.gid_size)) return kMapIds;
  }
  if (!bring_up_loopback()) return kLoopback;
  return kOk;
}

// Sends `count` new sockets (SCM_RIGHTS) over the channel.
bool send_sockets(int channel, int count) {
  int fds[kBatch];
  int made = 0;
  while (made < count && made < kBatch) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) break;
    fds[made++] = fd;
  }
  char byte = static_cast<char>(made);
  iovec io{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds)];
  msghdr message{};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  if (made > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * made);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * made);
    std::memcpy(CMSG_DATA(header), fds, sizeof(int) * made);
  }
  ssize_t sent = sendmsg(channel, &message, MSG_NOSIGNAL);
  for (int i = 0; i < made; ++i) close(fds[i]);
  return sent == 1;
}

[[noreturn]] void keep(int channel, bool with_user, const IdMaps& maps, pid_t agent) {
  prctl(PR_SET_NAME, "berth-netns");
  // The scheduler signals every process of the job; the keeper goes when the agent goes.
  for (int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT, SIGPIPE})
    ::signal(signal, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != agent) _exit(0);
  // A process that was started with other ids may not write its own id maps otherwise.
  prctl(PR_SET_DUMPABLE, 1);
  Hello hello;
  hello.step = enter_new_network(with_user, maps);
  if (hello.step != kOk) hello.error = errno;
  // Mapping ids clears the death signal; ask again.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (send(channel, &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello || hello.step != kOk)
    _exit(1);
  for (;;) {
    char wanted = 0;
    ssize_t n = recv(channel, &wanted, 1, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n != 1 || !send_sockets(channel, wanted)) _exit(0);
  }
}

// --- in the agent -----------------------------------------------------------------------------

IdMaps make_maps() {
  IdMaps maps{};
  auto write_map = [](char* to, unsigned id) {
    auto end = fmt::format_to_n(to, 47, "{0} {0} 1", id);
    return static_cast<size_t>(end.size);
  };
  maps.uid_size = write_map(maps.uid, geteuid());
  maps.gid_size = write_map(maps.gid, getegid());
  return maps;
}

std::string read_setting(const char* path) {
  std::ifstream file(path);
  std::string value;
  file >> value;
  return value;
}

}  // namespace

Error explain_namespace_error(std::string_view step, int errno_value) {
  Error error = system_error(step, errno_value);
  error.code = Code::permission_denied;
  std::string why;
  if (read_setting("/proc/sys/kernel/unprivileged_userns_clone") == "0")
    why = "kernel.unprivileged_userns_clone is 0";
  else if (read_setting("/proc/sys/user/max_user_namespaces") == "0")
    why = "user.max_user_namespaces is 0";
  else if (read_setting("/proc/sys/user/max_net_namespaces") == "0")
    why = "user.max_net_namespaces is 0";
  else if (read_setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1")
    why = "kernel.apparmor_restrict_unprivileged_userns is 1";
  else
    why =
        "one of kernel.unprivileged_userns_clone, user.max_user_namespaces, "
        "kernel.apparmor_restrict_unprivileged_userns, a chroot or a container's seccomp filter";
  error.message += fmt::format(
      "; this node does not let users make network namespaces ({}). Use an engine that listens on "
      "a UNIX socket ({{uds}}), ask the operator to allow user namespaces on compute nodes, or, if "
      "every user of the node may reach the engine, choose --isolation loopback",
      why);
  return error;
}

Result<std::unique_ptr<NetNamespace>> NetNamespace::create() {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return system_error("making a channel to the namespace's keeper", errno);
  bool with_user = geteuid() != 0;
  IdMaps maps = make_maps();
  pid_t agent = getpid();
  pid_t pid = fork();
  if (pid == 0) {
    close(pair[0]);
    keep(pair[1], with_user, maps, agent);
  }
  close(pair[1]);
  if (pid < 0) {
    int error = errno;
    close(pair[0]);
    return system_error("starting the namespace's keeper", error);
  }
  std::unique_ptr<NetNamespace> space(new NetNamespace);
  space->keeper_ = pid;
  space->channel_ = pair[0];
  timeval timeout{kReplyTimeoutS, 0};
  setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  Hello hello;
  ssize_t n;
  do {
    n = recv(pair[0], &hello, sizeof hello, 0);
  } while (n < 0 && errno == EINTR);
  if (n != sizeof hello) return internal_error("the namespace's keeper did not answer");
  if (hello.step != kOk) return explain_namespace_error(kStepNames[hello.step], hello.error);
  auto open_ns = [pid](const char* which) {
    return open(fmt::format("/proc/{}/ns/{}", pid, which).c_str(), O_RDONLY | O_CLOEXEC);
  };
  space->net_fd_ = open_ns("net");
  int error = errno;
  if (with_user) space->user_fd_ = open_ns("user");
  if (space->net_fd_ < 0 || (with_user && space->user_fd_ < 0))
    return system_error("opening the engine's network namespace", error);
  return space;
}

NetNamespace::~NetNamespace() {
  for (int fd : spare_) close(fd);
  for (int fd : {channel_, user_fd_, net_fd_})
    if (fd >= 0) close(fd);
  if (keeper_ > 0) {
    kill(keeper_, SIGKILL);
    waitpid(keeper_, nullptr, 0);
  }
}

Status NetNamespace::fetch_batch() {
  char wanted = kBatch;
  if (send(channel_, &wanted, 1, MSG_NOSIGNAL) != 1)
    return system_error("asking the namespace's keeper for sockets", errno);
  char made = 0;
  iovec io{&made, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kBatch)];
  msghdr message{};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t n;
  do {
    n = recvmsg(channel_, &message, MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n != 1) return unavailable("the namespace's keeper has ended", Source::system);
  for (cmsghdr* h = CMSG_FIRSTHDR(&message); h; h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof fd);
      spare_.push_back(fd);
    }
  }
  if (spare_.empty()) return unavailable("no socket left in the engine's network", Source::system);
  return {};
}

Result<int> NetNamespace::make_socket() {
  if (spare_.empty())
    if (Status fetched = fetch_batch(); !fetched) return fetched.error();
  int fd = spare_.back();
  spare_.pop_back();
  return fd;
}

runtime::Task<Result<runtime::StreamPtr>> connect_inside(runtime::Loop& loop, NetNamespace& space,
                                                         uint16_t port, runtime::Wait wait) {
  auto fd = space.make_socket();
  if (!fd) co_return std::move(fd).error();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  int rc = ::connect(*fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
  int error = rc == 0 ? 0 : errno;
  std::string what = fmt::format("connecting to the engine at 127.0.0.1:{} in its network", port);
  auto stream = std::make_unique<runtime::Stream>(loop, *fd);
  if (error == EINPROGRESS) {
    runtime::FdReady ready(*stream, runtime::FdReady::For::write, wait);
    runtime::WriteEnd end = co_await ready;
    switch (end) {
      case runtime::WriteEnd::timed_out:
        co_return timed_out(what + ": no answer", Source::engine);
      case runtime::WriteEnd::cancelled: {
        Error gone = unavailable(what + ": the client left", Source::caller);
        gone.code = Code::cancelled;
        co_return gone;
      }
      case runtime::WriteEnd::done:
      case runtime::WriteEnd::failed:
        break;
    }
    socklen_t size = sizeof error;
    if (getsockopt(stream->fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  }
  if (error != 0) {
    Error refused = unavailable(what + ": " + std::strerror(error), Source::engine);
    refused.retry = Retry::yes;
    co_return refused;
  }
  co_return stream;
}

}  // namespace berth::agent
