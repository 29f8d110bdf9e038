// Sockets and time for the benchmark's programs. Loopback only. Failures end the program.
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace bench {

[[noreturn]] inline void die(const char* what) {
  perror(what);
  exit(1);
}

inline uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

// Signals and file descriptors as a program with thousands of connections needs them.
inline void prepare_process() {
  signal(SIGPIPE, SIG_IGN);
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

inline sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

inline void set_nodelay(int fd) {
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

inline int listen_on(int port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  const sockaddr_in address = loopback(port);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) || listen(fd, 4096))
    die("listen");
  return fd;
}

// A connected (or, on loopback, immediately connecting) non-blocking socket.
inline int dial(int port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) die("socket");
  set_nodelay(fd);
  const sockaddr_in address = loopback(port);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) &&
      errno != EINPROGRESS)
    die("connect");
  return fd;
}

inline int new_epoll() {
  int fd = epoll_create1(EPOLL_CLOEXEC);
  if (fd < 0) die("epoll_create1");
  return fd;
}

inline void watch(int epoll, int fd, uint32_t events, void* data) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = data;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) die("epoll_ctl");
}

// A timer that fires every `interval_ns`.
inline int new_timer(long interval_ns) {
  int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  itimerspec spec{{0, interval_ns}, {0, interval_ns}};
  if (fd < 0 || timerfd_settime(fd, 0, &spec, nullptr)) die("timerfd");
  return fd;
}

inline void clear_timer(int fd) {
  uint64_t ticks;
  if (read(fd, &ticks, sizeof ticks) < 0 && errno != EAGAIN) die("timer");
}

}  // namespace bench
