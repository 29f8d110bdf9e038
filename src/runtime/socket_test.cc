#include "runtime/socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>

namespace berth::runtime {
namespace {

using std::chrono::milliseconds;

struct Pair {
  explicit Pair(Loop& loop) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    a = std::make_unique<Stream>(loop, ends[0]);
    b = std::make_unique<Stream>(loop, ends[1]);
  }
  StreamPtr a, b;
};

struct Accepted {
  StreamPtr client, server;
};
Task<Accepted> tcp_pair(Loop& loop) {
  auto listener = std::move(Listener::open(loop, Address::loopback(0))).value();
  auto client = co_await connect(loop, listener->address());
  auto server = co_await listener->accept();
  Accepted out;
  out.client = std::move(client).value();
  out.server = std::move(server).value();
  co_return out;
}

Task<std::string> read_to_end(Stream& s) {
  std::string out;
  for (;;) {
    ReadResult got = co_await s.read();
    if (!got.ok()) co_return out;
    out.append(got.view.bytes());
  }
}

Task<void> send_all(StreamPtr s, std::string bytes) {
  co_await s->write_stable(bytes);
  s.reset();
}

Task<size_t> big_transfer(Loop& loop, size_t size) {
  Accepted pair = co_await tcp_pair(loop);
  TaskScope scope(loop);
  std::string bytes(size, 'x');
  for (size_t i = 0; i < size; i += 101) bytes[i] = static_cast<char>('a' + i % 26);
  scope.spawn(send_all(std::move(pair.client), bytes));
  std::string got = co_await read_to_end(*pair.server);
  co_await scope.join();
  co_return got == bytes ? got.size() : 0;
}

TEST(Stream, CarriesMoreThanTheKernelHolds) {
  Loop loop;
  EXPECT_EQ(loop.run_until(big_transfer(loop, 20'000'000)), 20'000'000u);
}

Task<ReadEnd> guarded_read(Loop& loop, Stream& quiet, Stream& client) {
  Deadline deadline(loop);
  deadline.set_after(seconds(10));
  ReadResult got = co_await quiet.read({.guard = &client, .deadline = &deadline});
  co_return got.end;
}
Task<void> close_soon(Loop& loop, StreamPtr& s) {
  co_await sleep_for(loop, milliseconds(5));
  s.reset();
}
Task<ReadEnd> guard_case(Loop& loop, HalfClose mode, bool abort) {
  Accepted client = co_await tcp_pair(loop), upstream = co_await tcp_pair(loop);
  client.server->set_half_close(mode);
  if (abort) client.client->abort_on_close();
  TaskScope scope(loop);
  scope.spawn(close_soon(loop, client.client));
  co_return co_await guarded_read(loop, *upstream.client, *client.server);
}

TEST(Stream, AGuardThatLeavesEndsTheWait) {
  Loop loop;
  EXPECT_EQ(loop.run_until(guard_case(loop, HalfClose::is_leaving, false)), ReadEnd::cancelled);
  EXPECT_EQ(loop.run_until(guard_case(loop, HalfClose::is_leaving, true)), ReadEnd::cancelled);
  EXPECT_EQ(loop.run_until(guard_case(loop, HalfClose::is_allowed, true)), ReadEnd::cancelled);
}

Task<ReadEnd> half_close_case(Loop& loop) {
  Accepted client = co_await tcp_pair(loop), upstream = co_await tcp_pair(loop);
  client.server->set_half_close(HalfClose::is_allowed);
  client.client->shutdown_write();
  Deadline deadline(loop);
  deadline.set_after(milliseconds(60));
  ReadResult got =
      co_await upstream.client->read({.guard = client.server.get(), .deadline = &deadline});
  co_return got.end;
}

TEST(Stream, AHalfCloseIsNotLeavingWhereAllowed) {
  Loop loop;
  EXPECT_EQ(loop.run_until(half_close_case(loop)), ReadEnd::timed_out);
}

Task<WriteEnd> stalled_write(Loop& loop) {
  Pair pair(loop);
  std::string bytes(8'000'000, 'x');
  WriteResult r = co_await pair.a->write(bytes, {}, {}, milliseconds(50));
  co_return r.end;
}

TEST(Stream, AWriteThatStallsTimesOut) {
  Loop loop;
  EXPECT_EQ(loop.run_until(stalled_write(loop)), WriteEnd::timed_out);
}

Task<WriteEnd> write_to_leaver(Loop& loop) {
  Pair pair(loop);
  TaskScope scope(loop);
  scope.spawn(close_soon(loop, pair.b));
  std::string bytes(8'000'000, 'x');
  WriteResult r = co_await pair.a->write(bytes);
  co_await scope.join();
  co_return r.end;
}

TEST(Stream, AWriteToOneWhoLeavesFails) {
  Loop loop;
  EXPECT_EQ(loop.run_until(write_to_leaver(loop)), WriteEnd::failed);
}

Task<void> stale_view(Loop& loop) {
  Pair pair(loop);
  co_await pair.b->write("hello");
  ReadResult got = co_await pair.a->read();
  CHECK(got.view.bytes() == "hello");
  co_await pair.b->write("again");
  static_cast<void>(got.view.bytes());
}

TEST(View, UseAfterTheNextAwaitAborts) {
  EXPECT_DEATH(
      {
        Loop loop;
        loop.run_until(stale_view(loop));
      },
      "epoch");
}

Task<Code> connect_code(Loop& loop, Address address) {
  auto r = co_await connect(loop, address);
  co_return r.ok() ? Code::internal : r.error().code;
}

TEST(Connect, RefusedIsUnavailable) {
  Loop loop;
  uint16_t port;
  {
    auto listener = std::move(Listener::open(loop, Address::loopback(0))).value();
    port = listener->address().port();
  }
  EXPECT_EQ(loop.run_until(connect_code(loop, Address::loopback(port))), Code::unavailable);
  auto missing = Address::parse("unix:/nonexistent/berth.sock");
  EXPECT_EQ(loop.run_until(connect_code(loop, *missing)), Code::unavailable);
}

Task<Status> unix_round(Loop& loop, std::string path) {
  auto address = *Address::parse("unix:" + path);
  auto first = Listener::open(loop, address);
  if (!first.ok()) co_return first.error();
  auto second = Listener::open(loop, address);
  CHECK(!second.ok() && second.error().code == Code::conflict);
  auto client = co_await connect(loop, address);
  auto server = co_await first.value()->accept();
  if (!server.ok()) co_return server.error();
  CHECK((*server)->peer_ids()->uid == getuid());
  co_return Status();
}

TEST(Listener, UnixSocketsAndWhatOccupiesTheirPath) {
  Loop loop;
  auto dir = std::filesystem::temp_directory_path() / ("berth-sock-" + std::to_string(getpid()));
  std::filesystem::create_directory(dir);
  std::string path = (dir / "s").string();
  Status s = loop.run_until(unix_round(loop, path));
  EXPECT_TRUE(s.ok()) << s.error().message;
  EXPECT_FALSE(std::filesystem::exists(path));
  // One left over by a process that died is replaced.
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  auto address = *Address::parse("unix:" + path);
  ASSERT_EQ(bind(fd, address.get(), address.size()), 0);
  close(fd);
  EXPECT_TRUE(loop.run_until(unix_round(loop, path)).ok());
  std::filesystem::remove_all(dir);
}

Task<Code> accept_code(Listener& listener) {
  auto r = co_await listener.accept();
  co_return r.ok() ? Code::internal : r.error().code;
}
Task<void> close_listener(Loop& loop, Listener& listener) {
  co_await sleep_for(loop, milliseconds(5));
  listener.close();
}
Task<Code> closing_case(Loop& loop) {
  auto listener = std::move(Listener::open(loop, Address::loopback(0))).value();
  TaskScope scope(loop);
  scope.spawn(close_listener(loop, *listener));
  Code code = co_await accept_code(*listener);
  co_await scope.join();
  co_return code;
}

TEST(Listener, CloseEndsAPendingAccept) {
  Loop loop;
  EXPECT_EQ(loop.run_until(closing_case(loop)), Code::cancelled);
}

}  // namespace
}  // namespace berth::runtime
