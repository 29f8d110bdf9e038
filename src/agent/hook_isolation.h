// A private network for an engine that knows only TCP.
//
// NetNamespace: a network namespace (inside a user namespace, unless the agent is root) with its
// own loopback and nothing else. The engine enters it before its exec and listens on its 127.0.0.1;
// no other process of the node can reach that, nor can the engine be reached or reach anything
// over the network. A small keeper process in the namespace makes TCP sockets and hands them to the
// agent through SCM_RIGHTS: a socket stays in the network it was made in, so the agent connects it
// on its own loop.
// Guarantees: the keeper dies with the agent. Non-guarantees: the engine has no way out: it cannot
// download a model, and srun, mpirun or set-uid container launchers do not work inside.
// Ownership: the object owns the keeper and the namespace's descriptors; the namespace lives as
// long as a process or socket is in it.
// Errors: where user namespaces are forbidden, a message that names the setting and the ways out.
// Threading: create() before any thread is started (it forks without exec); the rest on the loop's
// thread. Cost: about a millisecond; a hand-over of a batch of sockets takes some 20 us.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "runtime/socket.h"

namespace berth::agent {

class NetNamespace {
 public:
  static Result<std::unique_ptr<NetNamespace>> create();
  ~NetNamespace();
  NetNamespace(const NetNamespace&) = delete;
  NetNamespace& operator=(const NetNamespace&) = delete;

  // For the engine's child process between fork and exec. user_fd is -1 for root.
  int user_fd() const { return user_fd_; }
  int net_fd() const { return net_fd_; }
  pid_t keeper() const { return keeper_; }

  // An unconnected, non-blocking TCP/IPv4 socket inside. The caller closes it.
  Result<int> make_socket();

 private:
  NetNamespace() = default;
  Status fetch_batch();
  pid_t keeper_ = -1;
  int channel_ = -1;
  int user_fd_ = -1;
  int net_fd_ = -1;
  std::vector<int> spare_;
};

// Connects to 127.0.0.1:port inside. Errors: as runtime::connect.
runtime::Task<Result<runtime::StreamPtr>> connect_inside(runtime::Loop& loop, NetNamespace& space,
                                                         uint16_t port, runtime::Wait wait = {});

// What the kernel's refusal of a namespace means and what one can do.
Error explain_namespace_error(std::string_view step, int errno_value);

}  // namespace berth::agent
