#include "agent/hook_endpoint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace berth::agent {
namespace {

using ::testing::HasSubstr;

// A foreign listener on a loopback port.
class Occupied {
 public:
  explicit Occupied(uint16_t port = 0) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = htons(port);
    ok_ = bind(fd_, reinterpret_cast<sockaddr*>(&a), sizeof a) == 0 && listen(fd_, 1) == 0;
    socklen_t size = sizeof a;
    getsockname(fd_, reinterpret_cast<sockaddr*>(&a), &size);
    port_ = ntohs(a.sin_port);
  }
  ~Occupied() { close(fd_); }
  bool ok() const { return ok_; }
  uint16_t port() const { return port_; }

 private:
  int fd_;
  bool ok_ = false;
  uint16_t port_ = 0;
};

TEST(Endpoint, ParsesRanges) {
  EXPECT_TRUE(parse_port_range("")->any());
  EXPECT_EQ(parse_port_range("20000-20100")->last, 20100);
  EXPECT_EQ(parse_port_range("20000")->first, 20000);
  EXPECT_EQ(parse_port_range("20000")->last, 20000);
  for (const char* bad : {"x", "1-", "-1", "0-5", "10-5", "1-70000", "1-2-3", "1 - 2"}) {
    auto r = parse_port_range(bad);
    ASSERT_FALSE(r) << bad;
    EXPECT_THAT(r.error().message, HasSubstr(bad));
  }
}

TEST(Endpoint, AnyPortIsFree) {
  auto a = choose_port("127.0.0.1", {});
  ASSERT_TRUE(a) << a.error().message;
  Occupied taken(*a);
  EXPECT_TRUE(taken.ok());
  auto six = choose_port("::1", {});
  EXPECT_TRUE(!six || *six > 0);
}

// A01: a foreign listener on the first candidate makes it the next one.
TEST(Endpoint, PassesOverPortsThatAreTaken) {
  Occupied one;
  ASSERT_LT(one.port(), 65535);
  auto neighbour = static_cast<uint16_t>(one.port() + 1);
  for (int i = 0; i < 2; ++i) {
    auto port = choose_port("127.0.0.1", {one.port(), neighbour});
    // Somebody else may have taken the neighbour; then the answer must be an error.
    EXPECT_TRUE(!port || *port == neighbour);
  }
}

// A01: no candidate free.
TEST(Endpoint, SaysWhichRangeIsFull) {
  Occupied one;
  auto port = choose_port("127.0.0.1", {one.port(), one.port()});
  ASSERT_FALSE(port);
  EXPECT_THAT(port.error().message, HasSubstr(fmt::format("{0}-{0}", one.port())));
}

TEST(Endpoint, AForeignAddressIsSaid) {
  auto port = choose_port("192.0.2.1", {20000, 20100});
  ASSERT_FALSE(port);
  EXPECT_THAT(port.error().message, HasSubstr("192.0.2.1"));
}

TEST(Endpoint, TellsWhoseListenerItIs) {
  Occupied one;
  auto ours = listener_of(one.port(), {getpid()});
  ASSERT_TRUE(ours);
  EXPECT_TRUE(ours->in_tree);
  EXPECT_EQ(ours->uid, getuid());
  auto foreign = listener_of(one.port(), {getppid()});
  ASSERT_TRUE(foreign);
  EXPECT_FALSE(foreign->in_tree);
  uint16_t free_port = *choose_port("127.0.0.1", {});
  EXPECT_FALSE(listener_of(free_port, {getpid()}));
}

}  // namespace
}  // namespace berth::agent
