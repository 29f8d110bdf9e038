#include "identity/peer_cred.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace berth::identity {
namespace {

TEST(PeerCred, OfASocketPairIsThisProcess) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  auto cred = peer_cred(pair[0]);
  ASSERT_TRUE(cred) << cred.error().message;
  EXPECT_EQ(cred->uid, getuid());
  EXPECT_EQ(cred->gid, getgid());
  EXPECT_EQ(cred->pid, getpid());
  close(pair[0]);
  close(pair[1]);
}

TEST(PeerCred, ATcpSocketHasNone) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_FALSE(peer_cred(fd));
  close(fd);
  EXPECT_FALSE(peer_cred(-1));
}

TEST(PeerCred, AnUnconnectedSocketHasNone) {
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  EXPECT_FALSE(peer_cred(fd));
  close(fd);
}

TEST(PeerCred, NamesUsers) {
  EXPECT_EQ(user_name(0), "root");
  EXPECT_EQ(user_id("root"), 0u);
  EXPECT_EQ(user_id("no-such-user-of-berth"), std::nullopt);
  EXPECT_EQ(user_name(4'000'000'001u), std::nullopt);
}

}  // namespace
}  // namespace berth::identity
