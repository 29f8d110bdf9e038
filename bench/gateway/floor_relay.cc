// The floor: relays bytes between a client and one of the upstreams and knows no HTTP.
// One thread, edge-triggered epoll, one upstream connection for each client connection.
//   bench_floor_relay LISTEN_PORT UPSTREAM_PORT...
#include <string>
#include <vector>

#include "net.h"

namespace {

struct End {
  int fd = -1;
  End* peer = nullptr;
  bool dead = false;
  std::string unsent;  // towards this end
};

std::vector<End*> graveyard;  // freed after the round of events that may still name them
char buffer[65536];

void drop(End* end) {
  for (End* e : {end, end->peer}) {
    if (e->dead) continue;
    e->dead = true;
    close(e->fd);
    graveyard.push_back(e);
  }
}

// Moves what `from` has to say to its peer, unless the peer is behind.
void pump(End* from) {
  End* to = from->peer;
  while (to->unsent.empty()) {
    const ssize_t n = read(from->fd, buffer, sizeof buffer);
    if (n == 0) return drop(from);
    if (n < 0) {
      if (errno != EAGAIN) drop(from);
      return;
    }
    ssize_t sent = send(to->fd, buffer, static_cast<size_t>(n), MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno != EAGAIN) return drop(from);
      sent = 0;
    }
    if (sent < n) to->unsent.assign(buffer + sent, static_cast<size_t>(n - sent));
    if (n < static_cast<ssize_t>(sizeof buffer)) return;  // the socket is empty
  }
}

void flush(End* end) {
  const ssize_t n = send(end->fd, end->unsent.data(), end->unsent.size(), MSG_NOSIGNAL);
  if (n > 0) end->unsent.erase(0, static_cast<size_t>(n));
  if (end->unsent.empty()) pump(end->peer);
}

void accept_all(int listener, int epoll, const std::vector<int>& upstreams) {
  static size_t next = 0;
  for (int fd; (fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
    bench::set_nodelay(fd);
    End* client = new End;
    End* upstream = new End;
    client->fd = fd;
    upstream->fd = bench::dial(upstreams[next++ % upstreams.size()]);
    client->peer = upstream;
    upstream->peer = client;
    for (End* e : {client, upstream})
      bench::watch(epoll, e->fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, e);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: bench_floor_relay LISTEN_PORT UPSTREAM_PORT...\n");
    return 2;
  }
  bench::prepare_process();
  const int listener = bench::listen_on(atoi(argv[1])), epoll = bench::new_epoll();
  std::vector<int> upstreams;
  for (int i = 2; i < argc; ++i) upstreams.push_back(atoi(argv[i]));
  bench::watch(epoll, listener, EPOLLIN, nullptr);
  for (;;) {
    epoll_event events[512];
    const int n = epoll_wait(epoll, events, 512, -1);
    for (int i = 0; i < n; ++i) {
      End* end = static_cast<End*>(events[i].data.ptr);
      const uint32_t what = events[i].events;
      if (!end) {
        accept_all(listener, epoll, upstreams);
        continue;
      }
      if (end->dead) continue;
      if (what & (EPOLLERR | EPOLLHUP)) {
        drop(end);
        continue;
      }
      if (what & EPOLLOUT && !end->unsent.empty()) flush(end);
      if (!end->dead && what & (EPOLLIN | EPOLLRDHUP)) pump(end);
    }
    for (End* e : graveyard) delete e;
    graveyard.clear();
  }
}
