#include "identity/munge.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/id.h"

namespace berth::identity {
namespace {

using ::testing::HasSubstr;

// A real munged of our own, on a socket in a folder of our own.
class MungeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access("/usr/sbin/munged", X_OK) != 0) GTEST_SKIP() << "munged is not installed here";
    if (!Munge::open()) GTEST_SKIP() << "libmunge.so.2 is not installed here";
    char pattern[] = "/tmp/berth-munge-XXXXXX";
    folder_ = mkdtemp(pattern);
    std::ofstream(folder_ + "/key") << random_hex(64);
    chmod((folder_ + "/key").c_str(), 0400);
    chmod(folder_.c_str(), 0755);
    socket_ = folder_ + "/s";
    start();
  }
  void TearDown() override {
    if (pid_ > 0) stop();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  void start() {
    std::string key = "--key-file=" + folder_ + "/key", socket = "--socket=" + socket_,
                log = "--log-file=" + folder_ + "/log", pid = "--pid-file=" + folder_ + "/pid",
                seed = "--seed-file=" + folder_ + "/seed";
    pid_ = fork();
    if (pid_ == 0) {
      int null = open("/dev/null", O_RDWR);
      dup2(null, 1);
      dup2(null, 2);
      execl("/usr/sbin/munged", "munged", "--foreground", "--force", "--num-threads=1", key.c_str(),
            socket.c_str(), log.c_str(), pid.c_str(), seed.c_str(), nullptr);
      _exit(127);
    }
    auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!answers()) {
      ASSERT_LT(std::chrono::steady_clock::now(), give_up) << "munged does not come up";
      ASSERT_EQ(waitpid(pid_, nullptr, WNOHANG), 0) << "munged ended";
      usleep(5000);  // between two looks at a bounded wait
    }
  }
  void stop() {
    kill(pid_, SIGTERM);
    // munged may sit in accept() and not look at its signal: then it is killed.
    auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (waitpid(pid_, nullptr, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > patience) kill(pid_, SIGKILL);
      usleep(5000);
    }
    pid_ = -1;
  }
  bool answers() const {
    sockaddr_un addr{};
    addr.sun_family = AF_UNIX;
    socket_.copy(addr.sun_path, sizeof addr.sun_path - 1);
    int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    int rc = ::connect(fd, reinterpret_cast<sockaddr*>(&addr), sizeof addr);
    close(fd);
    return rc == 0;
  }

  std::string folder_, socket_;
  pid_t pid_ = -1;
};

TEST_F(MungeTest, TellsWhoMadeTheCredentialAndWhatItVouchesFor) {
  auto munge = Munge::open(socket_);
  ASSERT_TRUE(munge);
  std::string payload = sha256_hex("a body");
  auto credential = munge->encode(payload);
  ASSERT_TRUE(credential) << credential.error().message;
  EXPECT_THAT(*credential, ::testing::StartsWith("MUNGE:"));
  auto got = munge->decode(*credential);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->uid, getuid());
  EXPECT_EQ(got->gid, getgid());
  EXPECT_EQ(got->payload, payload);
}

TEST_F(MungeTest, RefusesASecondUse) {
  auto munge = Munge::open(socket_);
  auto credential = munge->encode("x");
  ASSERT_TRUE(credential);
  ASSERT_TRUE(munge->decode(*credential));
  auto again = munge->decode(*credential);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::unauthenticated);
  EXPECT_THAT(again.error().message, HasSubstr("one use"));
  EXPECT_THAT(again.error().message, ::testing::Not(HasSubstr(*credential)));
}

TEST_F(MungeTest, RefusesWhatIsNoCredential) {
  auto munge = Munge::open(socket_);
  auto made = munge->encode("payload");
  ASSERT_TRUE(made);
  std::string forged = *made;
  forged[forged.size() / 2] = forged[forged.size() / 2] == 'A' ? 'B' : 'A';
  for (const std::string& text : {std::string(), std::string("MUNGE:abc:"), forged}) {
    auto got = munge->decode(text);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, Code::unauthenticated) << text;
  }
}

TEST_F(MungeTest, SaysWhenTheDaemonIsNotThere) {
  auto munge = Munge::open(folder_ + "/nobody");
  ASSERT_TRUE(munge);
  auto got = munge->encode("x");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::unavailable);
  EXPECT_THAT(got.error().message, HasSubstr("is munged running"));
}

}  // namespace
}  // namespace berth::identity
