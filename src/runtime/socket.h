// Streams and listeners: TCP (IPv4, IPv6) and UNIX sockets, pipes, plain or under TLS.
//
//   ReadResult got = co_await stream->read({.guard = client, .deadline = &deadline});
//   if (got.end != ReadEnd::data) ...            // eof, failed, cancelled, timed_out
//   use(got.view.bytes());                       // until the next co_await; later use aborts
//   if (!co_await stream->write(head, body)) ... // all of it is in the kernel, or false
//
// Read and Write are the seam where TLS goes in (tls.h); the plain path costs one branch for it.
//
// Guard: a second stream whose peer, when it leaves, ends the wait with `cancelled`. With it the
// death of a client ends a wait on the engine at once, however silent the engine is.
// What counts as leaving is the guard's HalfClose setting: a FIN (the default), or only a
// connection that is closed in both directions or reset.
// Deadline: shared with whoever set it; a wait that finds it expired ends with `timed_out`.
//
// Guarantees: no read is tried on a socket known to be empty (no EAGAIN per event); a write that
// the kernel takes at once costs one system call and no copy. At most one reader and one writer
// wait on a stream, and it guards one wait at a time; more are bugs and abort.
// Ownership: StreamPtr owns the fd. The stream must outlive its waits.
// Threading: the loop's thread. Errors: Result or the end value; errno in `error`.
#pragma once

#include <cerrno>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "runtime/address.h"
#include "runtime/loop.h"

namespace berth::runtime {

class Stream;
class TlsSession;
using StreamPtr = std::unique_ptr<Stream>;

enum class HalfClose { is_leaving, is_allowed };

struct Wait {
  Stream* guard = nullptr;
  Deadline* deadline = nullptr;
};

enum class ReadEnd : uint8_t { data, eof, failed, cancelled, timed_out };
struct ReadResult {
  ReadEnd end = ReadEnd::failed;
  View view;      // of data
  int error = 0;  // errno of failed
  bool ok() const { return end == ReadEnd::data; }
};

enum class WriteEnd : uint8_t { done, failed, cancelled, timed_out };
struct WriteResult {
  WriteEnd end = WriteEnd::failed;
  int error = 0;
  explicit operator bool() const { return end == WriteEnd::done; }
};

class Read;
class Write;

class Stream final : public EventSource {
 public:
  // Takes the fd, makes it non-blocking and registers it.
  Stream(Loop& loop, int fd);
  ~Stream() override;

  Read read(Wait wait = {});
  // Sends a, then b. The bytes may be views of the shared buffer: what the kernel does not take at
  // once is copied aside. `stall` limits the time without progress (not the whole); zero: none.
  Write write(std::string_view a, std::string_view b = {}, Wait wait = {}, Duration stall = {});
  // The same for bytes that stay where they are until the write has ended: nothing is copied.
  Write write_stable(std::string_view a, std::string_view b = {}, Wait wait = {},
                     Duration stall = {});

  // The peer has left, by the HalfClose setting.
  bool peer_gone() const { return (half_close_allowed_ ? dead_ : hup_); }
  // Open, and nothing unread: fit to be kept for another exchange.
  bool quiet() const { return !hup_ && !readable_; }
  // There may be bytes (or an end) to read without waiting.
  bool maybe_readable() const { return readable_; }
  // The owner has read the fd by itself until EAGAIN (signalfd, pidfd, TLS), or filled it.
  void mark_drained() { readable_ = false; }
  void mark_full() { writable_ = false; }
  void set_half_close(HalfClose mode) { half_close_allowed_ = mode == HalfClose::is_allowed; }

  // Sends a FIN; reading goes on.
  void shutdown_write();
  // Closes both directions now: whoever waits on the stream finds its peer gone.
  void cut();
  // The destructor will send RST instead of FIN, so that the peer sees a cut and not an end.
  void abort_on_close();

  // While nobody reads, `watch` is woken when bytes or an end arrive; its complete() may destroy
  // the stream and itself, and returns false. Pooled connections use it.
  void watch_idle(Waiter& watch);
  void unwatch_idle() { idle_ = nullptr; }

  Loop& loop() { return loop_; }
  int fd() const { return fd_; }
  bool is_tls() const { return tls_ != nullptr; }
  Address peer_address() const;
  // The other side of a UNIX socket, by SO_PEERCRED.
  struct PeerIds {
    uint32_t uid;
    uint32_t gid;
    int32_t pid;
  };
  std::optional<PeerIds> peer_ids() const;

  void on_events(uint32_t events) override;

  // tls.h installs a session.
  void set_tls(std::unique_ptr<TlsSession> tls);
  TlsSession* tls() { return tls_.get(); }

 private:
  friend class Read;
  friend class Write;
  friend class FdReady;
  friend class AcceptReady;
  friend class Listener;

  ssize_t read_some(char* to, size_t size);
  ssize_t write_some(std::string_view a, std::string_view b);

  Loop& loop_;
  int fd_;
  bool readable_ = false;
  bool writable_ = true;
  bool hup_ = false;   // FIN seen, or worse
  bool dead_ = false;  // closed both ways, or an error
  bool half_close_allowed_ = false;
  bool abort_ = false;
  bool is_socket_ = true;  // until the kernel says that it is none
  Waiter* reader_ = nullptr;
  Waiter* writer_ = nullptr;
  Waiter* guarded_ = nullptr;  // whose wait ends when our peer leaves
  Waiter* idle_ = nullptr;
  std::unique_ptr<TlsSession> tls_;
};

// co_await stream.read(): see above.
class Read final : public Waiter {
 public:
  Read(Stream& stream, Wait wait) : stream_(stream), wait_(wait) {}
  ~Read() override { detach(); }
  bool await_ready();
  void await_suspend(std::coroutine_handle<> h);
  ReadResult await_resume() {
    detach();
    return result_;
  }
  bool complete() override;

 private:
  bool attempt();
  void detach();
  Stream& stream_;
  Wait wait_;
  bool attached_ = false;
  ReadResult result_;
};

// co_await stream.write(): see above.
class Write final : public Waiter {
 public:
  enum class Bytes : uint8_t { transient, stable };
  Write(Stream& stream, std::string_view a, std::string_view b, Wait wait, Duration stall,
        Bytes bytes)
      : stream_(stream), a_(a), b_(b), wait_(wait), stall_(stall), bytes_(bytes) {}
  ~Write() override { detach(); }
  bool await_ready();
  void await_suspend(std::coroutine_handle<> h);
  WriteResult await_resume();
  bool complete() override;

 private:
  bool attempt();  // true: ended, one way or the other
  void detach();
  Stream& stream_;
  std::string_view a_;
  std::string_view b_;
  Wait wait_;
  Duration stall_;
  Bytes bytes_;
  bool attached_ = false;
  WriteResult result_;
  std::string rest_;
  std::unique_ptr<Deadline> stall_deadline_;
};

// co_await FdReady(stream, FdReady::For::write): until the fd reports it (connect, accept, TLS).
class FdReady final : public Waiter {
 public:
  enum class For : uint8_t { read, write };
  FdReady(Stream& stream, For what, Wait wait) : stream_(stream), what_(what), wait_(wait) {}
  ~FdReady() override { detach(); }
  bool await_ready() { return check(); }
  void await_suspend(std::coroutine_handle<> h);
  WriteEnd await_resume() {
    detach();
    return end_;
  }
  bool complete() override { return check(); }

 private:
  bool check();
  void detach();
  Stream& stream_;
  For what_;
  Wait wait_;
  bool attached_ = false;
  WriteEnd end_ = WriteEnd::done;
};

inline Read Stream::read(Wait wait) { return Read(*this, wait); }
inline Write Stream::write(std::string_view a, std::string_view b, Wait wait, Duration stall) {
  return Write(*this, a, b, wait, stall, Write::Bytes::transient);
}
inline Write Stream::write_stable(std::string_view a, std::string_view b, Wait wait,
                                  Duration stall) {
  return Write(*this, a, b, wait, stall, Write::Bytes::stable);
}

enum class ReusePort { no, yes };

struct ListenOptions {
  ReusePort reuse_port = ReusePort::no;
  int backlog = 4096;
  unsigned unix_mode = 0600;  // of a UNIX socket's file
};

class Listener {
 public:
  // Binds and listens. A stale UNIX socket file (nobody listens on it) is replaced; one that is in
  // use is an error.
  static Result<std::unique_ptr<Listener>> open(Loop& loop, const Address& address,
                                                ListenOptions options = {});
  // Adopts a listening fd (socket activation, a parent's hand-over).
  static std::unique_ptr<Listener> adopt(Loop& loop, int fd);
  ~Listener();

  // The next connection. Errors: cancelled when close() was called; out of descriptors is waited
  // out here (100 ms at a time) and not reported.
  Task<Result<StreamPtr>> accept();
  // Takes what waits in the backlog, without waiting for more.
  StreamPtr try_accept();
  // Ends a pending accept(); no connection is taken any more.
  void close();

  // What it is bound to: with port 0, the port the kernel chose.
  const Address& address() const { return address_; }

 private:
  Listener(Loop& loop, int fd, Address address);
  Loop& loop_;
  std::unique_ptr<Stream> socket_;
  Address address_;
  std::string unlink_path_;
  bool closed_ = false;
  Waiter* acceptor_ = nullptr;
  friend class AcceptReady;
};

// Connects without blocking. Errors: unavailable (refused, unreachable, no socket file), timeout,
// cancelled (the guard's peer left).
Task<Result<StreamPtr>> connect(Loop& loop, Address address, Wait wait = {});

}  // namespace berth::runtime
