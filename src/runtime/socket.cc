#include "runtime/socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "runtime/tls_session.h"

namespace berth::runtime {

Stream::Stream(Loop& loop, int fd) : loop_(loop), fd_(fd) {
  int flags = fcntl(fd, F_GETFL);
  if (flags >= 0 && !(flags & O_NONBLOCK)) fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  loop_.add(fd, *this);
}

Stream::~Stream() {
  CHECK(!reader_ && !writer_ && !guarded_);
  if (tls_ && !dead_ && !abort_) tls_->close_notify();
  loop_.remove(*this);
  if (abort_) {
    linger hard{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  }
  close(fd_);
}

void Stream::set_tls(std::unique_ptr<TlsSession> tls) { tls_ = std::move(tls); }

void Stream::shutdown_write() {
  if (tls_) tls_->close_notify();
  shutdown(fd_, SHUT_WR);
}

void Stream::cut() {
  on_events(EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR);
  shutdown(fd_, SHUT_RDWR);
}

void Stream::abort_on_close() { abort_ = true; }

void Stream::watch_idle(Waiter& watch) {
  CHECK(!reader_ && !idle_);
  idle_ = &watch;
}

Address Stream::peer_address() const {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (getpeername(fd_, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    storage.ss_family = AF_UNIX;
    size = sizeof storage.ss_family;
  }
  return Address::from_sockaddr(reinterpret_cast<sockaddr*>(&storage), size);
}

std::optional<Stream::PeerIds> Stream::peer_ids() const {
  ucred ids{};
  socklen_t size = sizeof ids;
  if (getsockopt(fd_, SOL_SOCKET, SO_PEERCRED, &ids, &size) != 0 || ids.pid == 0) return {};
  return PeerIds{ids.uid, ids.gid, ids.pid};
}

void Stream::on_events(uint32_t events) {
  if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) readable_ = true;
  if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) writable_ = true;
  if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) hup_ = true;
  if (events & (EPOLLHUP | EPOLLERR)) dead_ = true;
  // Under TLS a read may wait for writability and a write for bytes: both look at every event.
  if (reader_ && (readable_ || tls_)) loop_.wake(*reader_);
  if (writer_ && (writable_ || hup_ || tls_)) loop_.wake(*writer_);
  if (guarded_ && peer_gone()) loop_.wake(*guarded_);
  if (idle_ && readable_) loop_.wake(*idle_);
}

// recv() and send() cost less than read() and write(), which do not know that a socket has no
// position; pipes need the latter.
ssize_t Stream::read_some(char* to, size_t size) {
  if (tls_) return tls_->read(to, size);
  ssize_t n;
  do {
    n = is_socket_ ? ::recv(fd_, to, size, 0) : ::read(fd_, to, size);
    if (n < 0 && errno == ENOTSOCK) {
      is_socket_ = false;
      errno = EINTR;
    }
  } while (n < 0 && errno == EINTR);
  return n;
}

ssize_t Stream::write_some(std::string_view a, std::string_view b) {
  if (tls_) return tls_->write(a, b);
  constexpr size_t kCopied = 4096;  // up to here, one piece is cheaper than two
  char together[kCopied];
  if (!a.empty() && !b.empty() && a.size() + b.size() <= kCopied) {
    memcpy(together, a.data(), a.size());
    memcpy(together + a.size(), b.data(), b.size());
    a = {together, a.size() + b.size()};
    b = {};
  }
  ssize_t n;
  do {
    if (a.empty() || b.empty()) {
      std::string_view x = a.empty() ? b : a;
      n = is_socket_ ? ::send(fd_, x.data(), x.size(), MSG_NOSIGNAL)
                     : ::write(fd_, x.data(), x.size());
      if (n < 0 && errno == ENOTSOCK) {
        is_socket_ = false;
        errno = EINTR;
      }
    } else {
      iovec parts[2] = {{const_cast<char*>(a.data()), a.size()},
                        {const_cast<char*>(b.data()), b.size()}};
      n = ::writev(fd_, parts, 2);
    }
  } while (n < 0 && errno == EINTR);
  return n;
}

// ---- Read -----------------------------------------------------------------------------------

bool Read::attempt() {
  if (!stream_.readable_ && !(stream_.tls_ && stream_.tls_->pending())) return false;
  Loop& loop = stream_.loop_;
  loop.next_epoch();
  ssize_t n = stream_.read_some(loop.buffer(), Loop::kBufferBytes);
  if (n < 0 && errno == EAGAIN) {
    stream_.readable_ = false;
    return false;
  }
  if (n > 0) {
    // A short read has emptied the socket; the next bytes bring the next edge. After a FIN there
    // is no further edge, so reading must go on to find the end.
    bool drained = static_cast<size_t>(n) < Loop::kBufferBytes && !stream_.hup_ && !stream_.tls_;
    if (drained) stream_.readable_ = false;
    result_.end = ReadEnd::data;
    result_.view = View(loop, loop.buffer(), static_cast<size_t>(n));
  } else if (n == 0) {
    result_.end = ReadEnd::eof;
  } else {
    result_.end = ReadEnd::failed;
    result_.error = errno;
  }
  return true;
}

bool Read::await_ready() {
  if (wait_.guard && wait_.guard->peer_gone()) {
    result_.end = ReadEnd::cancelled;
    return true;
  }
  if (attempt()) return true;
  if (wait_.deadline && wait_.deadline->expired()) {
    result_.end = ReadEnd::timed_out;
    return true;
  }
  return false;
}

void Read::await_suspend(std::coroutine_handle<> h) {
  CHECK(!stream_.reader_);
  handle_ = h;
  attached_ = true;
  stream_.reader_ = this;
  if (wait_.guard) {
    CHECK(!wait_.guard->guarded_);
    wait_.guard->guarded_ = this;
  }
  if (wait_.deadline) wait_.deadline->attach(*this);
}

bool Read::complete() { return await_ready(); }

void Read::detach() {
  if (!attached_) return;
  attached_ = false;
  stream_.reader_ = nullptr;
  if (wait_.guard) wait_.guard->guarded_ = nullptr;
  if (wait_.deadline) wait_.deadline->detach();
}

// ---- Write ----------------------------------------------------------------------------------

bool Write::attempt() {
  while (!a_.empty() || !b_.empty()) {
    ssize_t n = stream_.write_some(a_, b_);
    if (n < 0) {
      if (errno == EAGAIN) {
        stream_.writable_ = false;
        return false;
      }
      result_.end = WriteEnd::failed;
      result_.error = errno;
      return true;
    }
    auto taken = static_cast<size_t>(n);
    size_t of_a = std::min(taken, a_.size());
    a_.remove_prefix(of_a);
    b_.remove_prefix(taken - of_a);
    if (taken && stall_deadline_) stall_deadline_->set_after(stall_);
  }
  result_.end = WriteEnd::done;
  return true;
}

bool Write::await_ready() {
  bool ended = attempt();
  stream_.loop_.next_epoch();
  return ended;
}

void Write::await_suspend(std::coroutine_handle<> h) {
  CHECK(!stream_.writer_);
  handle_ = h;
  if (bytes_ == Bytes::transient) {
    rest_.reserve(a_.size() + b_.size());
    rest_.append(a_).append(b_);
    a_ = rest_;
    b_ = {};
  }
  if (stall_.count() > 0) {
    stall_deadline_ = std::make_unique<Deadline>(stream_.loop_);
    stall_deadline_->set_after(stall_);
    stall_deadline_->attach(*this);
  }
  attached_ = true;
  stream_.writer_ = this;
  if (wait_.guard) {
    CHECK(!wait_.guard->guarded_);
    wait_.guard->guarded_ = this;
  }
  if (wait_.deadline) wait_.deadline->attach(*this);
  // A peer that left before the wait brings no further event.
  if (stream_.peer_gone() || (wait_.guard && wait_.guard->peer_gone())) stream_.loop_.wake(*this);
}

bool Write::complete() {
  if (wait_.guard && wait_.guard->peer_gone()) {
    result_.end = WriteEnd::cancelled;
    return true;
  }
  if (attempt()) return true;
  if (stream_.peer_gone()) {
    result_.end = WriteEnd::failed;
    result_.error = EPIPE;
    return true;
  }
  bool late = (wait_.deadline && wait_.deadline->expired()) ||
              (stall_deadline_ && stall_deadline_->expired());
  if (late) result_.end = WriteEnd::timed_out;
  return late;
}

WriteResult Write::await_resume() {
  detach();
  return result_;
}

void Write::detach() {
  if (!attached_) return;
  attached_ = false;
  stream_.writer_ = nullptr;
  if (wait_.guard) wait_.guard->guarded_ = nullptr;
  if (wait_.deadline) wait_.deadline->detach();
}

// ---- FdReady --------------------------------------------------------------------------------

bool FdReady::check() {
  if (wait_.guard && wait_.guard->peer_gone()) {
    end_ = WriteEnd::cancelled;
  } else if (what_ == For::read ? stream_.readable_ : stream_.writable_) {
    end_ = WriteEnd::done;
  } else if (wait_.deadline && wait_.deadline->expired()) {
    end_ = WriteEnd::timed_out;
  } else {
    return false;
  }
  return true;
}

void FdReady::await_suspend(std::coroutine_handle<> h) {
  Waiter*& slot = what_ == For::read ? stream_.reader_ : stream_.writer_;
  CHECK(!slot);
  slot = this;
  handle_ = h;
  attached_ = true;
  if (wait_.guard) {
    CHECK(!wait_.guard->guarded_);
    wait_.guard->guarded_ = this;
  }
  if (wait_.deadline) wait_.deadline->attach(*this);
}

void FdReady::detach() {
  if (!attached_) return;
  attached_ = false;
  (what_ == For::read ? stream_.reader_ : stream_.writer_) = nullptr;
  if (wait_.guard) wait_.guard->guarded_ = nullptr;
  if (wait_.deadline) wait_.deadline->detach();
}

// ---- Listener -------------------------------------------------------------------------------

namespace {

void set_no_delay(int fd, int family) {
  int one = 1;
  if (family != AF_UNIX) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

Error listen_error(const Address& address, std::string_view call, int error) {
  Error e = system_error(std::string(call) + " on " + address.to_string(), error);
  if (error == EADDRINUSE) {
    e.code = Code::conflict;
    e.message += "; another process listens there, choose another address or stop it";
  }
  return e;
}

// A socket file whose listener died would make bind() fail forever.
void remove_stale_socket(const Address& address) {
  struct stat st {};
  std::string path = address.unix_path();
  if (lstat(path.c_str(), &st) != 0 || !S_ISSOCK(st.st_mode)) return;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  bool stale = ::connect(fd, address.get(), address.size()) != 0 && errno == ECONNREFUSED;
  ::close(fd);
  if (stale) unlink(path.c_str());
}

Address bound_address(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size);
  return Address::from_sockaddr(reinterpret_cast<sockaddr*>(&storage), size);
}

}  // namespace

Result<std::unique_ptr<Listener>> Listener::open(Loop& loop, const Address& address,
                                                 ListenOptions options) {
  int fd = socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return listen_error(address, "socket", errno);
  int one = 1;
  if (address.is_unix()) {
    remove_stale_socket(address);
  } else {
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (options.reuse_port == ReusePort::yes)
      setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
  }
  mode_t old_mask = address.is_unix() ? umask(0777 & ~options.unix_mode) : 0;
  int rc = bind(fd, address.get(), address.size());
  int error = errno;
  if (address.is_unix()) umask(old_mask);
  const char* call = "bind";
  if (rc == 0) {
    call = "listen";
    rc = listen(fd, options.backlog);
    error = errno;
  }
  if (rc != 0) {
    ::close(fd);
    return listen_error(address, call, error);
  }
  std::unique_ptr<Listener> out(new Listener(loop, fd, bound_address(fd)));
  if (address.is_unix()) out->unlink_path_ = address.unix_path();
  return out;
}

std::unique_ptr<Listener> Listener::adopt(Loop& loop, int fd) {
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  return std::unique_ptr<Listener>(new Listener(loop, fd, bound_address(fd)));
}

Listener::Listener(Loop& loop, int fd, Address address)
    : loop_(loop), socket_(std::make_unique<Stream>(loop, fd)), address_(address) {}

Listener::~Listener() { close(); }

void Listener::close() {
  if (closed_) return;
  closed_ = true;
  shutdown(socket_->fd(), SHUT_RD);  // refuses from now on; the fd goes with this object
  if (!unlink_path_.empty()) unlink(unlink_path_.c_str());
  if (acceptor_) loop_.wake(*acceptor_);
}

// Waits for a connection or for close().
class AcceptReady final : public Waiter {
 public:
  explicit AcceptReady(Listener& listener) : listener_(listener) {}
  ~AcceptReady() override { detach(); }
  bool await_ready() { return complete(); }
  void await_suspend(std::coroutine_handle<> h) {
    CHECK(!listener_.acceptor_);
    handle_ = h;
    listener_.acceptor_ = this;
    listener_.socket_->reader_ = this;
  }
  void await_resume() { detach(); }
  bool complete() override { return listener_.closed_ || listener_.socket_->readable_; }

 private:
  void detach() {
    if (listener_.acceptor_ != this) return;
    listener_.acceptor_ = nullptr;
    listener_.socket_->reader_ = nullptr;
  }
  Listener& listener_;
};

StreamPtr Listener::try_accept() {
  if (closed_) return nullptr;
  int fd;
  do {
    fd = accept4(socket_->fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  } while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
  if (fd < 0) {
    if (errno == EAGAIN) socket_->readable_ = false;
    return nullptr;
  }
  set_no_delay(fd, address_.family());
  return std::make_unique<Stream>(loop_, fd);
}

Task<Result<StreamPtr>> Listener::accept() {
  for (;;) {
    if (closed_) co_return Error{Code::cancelled, "the listener is closed"};
    StreamPtr stream = try_accept();
    if (stream) co_return stream;
    int error = errno;
    if (error == EAGAIN) {
      AcceptReady ready(*this);
      co_await ready;
    } else if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
      co_await sleep_for(loop_, Duration(100));  // the backlog holds them meanwhile
    } else {
      co_return system_error("accept on " + address_.to_string(), error);
    }
  }
}

// ---- connect --------------------------------------------------------------------------------

namespace {

Error connect_error(const Address& address, int error) {
  Error e = unavailable("connect to " + address.to_string() + ": " + strerror(error), Source::peer);
  e.retry = Retry::yes;
  return e;
}

Error connect_ended(const Address& address, WriteEnd end) {
  if (end == WriteEnd::cancelled)
    return Error{Code::cancelled, "connect to " + address.to_string() + ": the client left",
                 Source::caller};
  return timed_out("connect to " + address.to_string() + ": no answer within the deadline",
                   Source::peer);
}

}  // namespace

Task<Result<StreamPtr>> connect(Loop& loop, Address address, Wait wait) {
  for (;;) {
    int fd = socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) co_return system_error("socket for " + address.to_string(), errno);
    set_no_delay(fd, address.family());
    int rc = ::connect(fd, address.get(), address.size());
    int error = rc == 0 ? 0 : errno;
    if (error == EAGAIN && address.is_unix()) {  // its backlog is full
      ::close(fd);
      if (wait.guard && wait.guard->peer_gone())
        co_return connect_ended(address, WriteEnd::cancelled);
      if (wait.deadline && wait.deadline->expired())
        co_return connect_ended(address, WriteEnd::timed_out);
      co_await sleep_for(loop, Duration(10));
      continue;
    }
    if (error != 0 && error != EINPROGRESS) {
      ::close(fd);
      co_return connect_error(address, error);
    }
    auto stream = std::make_unique<Stream>(loop, fd);
    if (error == EINPROGRESS) {
      stream->mark_full();
      WriteEnd end = co_await FdReady(*stream, FdReady::For::write, wait);
      if (end != WriteEnd::done) co_return connect_ended(address, end);
      socklen_t size = sizeof error;
      getsockopt(stream->fd(), SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0) co_return connect_error(address, error);
    }
    co_return stream;
  }
}

}  // namespace berth::runtime
