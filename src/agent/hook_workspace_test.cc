#include "agent/hook_workspace.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace berth::agent {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class WorkspaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/bwt-XXXXXX";
    root_ = mkdtemp(pattern);
  }
  void TearDown() override { fs::remove_all(root_); }
  std::string root_;
};

TEST_F(WorkspaceTest, IsPrivateAndGoneAtTheEnd) {
  std::string path;
  {
    auto w = Workspace::create(root_);
    ASSERT_TRUE(w) << w.error().message;
    path = (*w)->path();
    struct stat info {};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0700u);
    EXPECT_EQ(info.st_uid, geteuid());
    EXPECT_TRUE(fs::is_directory((*w)->scratch()));
    EXPECT_FALSE(fs::exists(path + "/trial"));
    auto socket = (*w)->socket_path("engine.sock");
    ASSERT_TRUE(socket);
    EXPECT_LE(socket->size(), kMaxSocketPath);
    std::ofstream((*w)->scratch() + "/left-behind") << "x";
  }
  EXPECT_FALSE(fs::exists(path));
}

// A19: the job's own TMPDIR of 150 characters does not matter; a root that is too long is said.
TEST_F(WorkspaceTest, SaysWhenPathsWouldBeTooLong) {
  setenv("TMPDIR", ("/tmp/" + std::string(145, 'x')).c_str(), 1);
  auto w = Workspace::create(root_);
  unsetenv("TMPDIR");
  ASSERT_TRUE(w) << w.error().message;
  EXPECT_THAT((*w)->path(), ::testing::StartsWith(root_));
  auto socket = (*w)->socket_path(std::string(120, 's'));
  ASSERT_FALSE(socket);
  EXPECT_THAT(socket.error().message, HasSubstr("path too long ("));
  EXPECT_THAT(socket.error().message, HasSubstr("> 107)"));
  auto too_long = Workspace::create("/tmp/" + std::string(145, 'x'));
  ASSERT_FALSE(too_long);
  EXPECT_THAT(too_long.error().message, HasSubstr("path too long (150 > 40)"));
}

TEST_F(WorkspaceTest, SaysWhatIsWrongWithTheRoot) {
  auto missing = Workspace::create(root_ + "/no");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr(root_ + "/no"));
  EXPECT_THAT(missing.error().message, HasSubstr("No such file"));
  EXPECT_FALSE(Workspace::create("tmp"));
}

// A19: a full disk. A tmpfs of 32 KiB in a mount namespace of a child, so that nothing leaks.
TEST_F(WorkspaceTest, SaysWhenTheDiskIsFull) {
  int out[2];
  ASSERT_EQ(pipe(out), 0);
  pid_t child = fork();
  if (child == 0) {
    bool mounted = unshare(CLONE_NEWNS) == 0 &&
                   mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                   mount("none", root_.c_str(), "tmpfs", 0, "size=32k") == 0;
    std::string text = "SKIP";
    if (mounted) {
      auto w = Workspace::create(root_);
      text = w ? "created on a full disk" : w.error().message;
    }
    (void)!write(out[1], text.data(), text.size());
    _exit(0);
  }
  close(out[1]);
  char buffer[1000];
  ssize_t n = read(out[0], buffer, sizeof buffer);
  close(out[0]);
  waitpid(child, nullptr, 0);
  ASSERT_GT(n, 0);
  std::string text(buffer, n);
  if (text == "SKIP") GTEST_SKIP() << "no right to mount a tmpfs here";
  EXPECT_THAT(text, HasSubstr("no space left on " + root_));
}

TEST_F(WorkspaceTest, RemovesWhatDeadAgentsLeftAndNothingElse) {
  // A child makes a workspace and dies without cleaning up, as after SIGKILL.
  pid_t child = fork();
  if (child == 0) {
    auto w = Workspace::create(root_);
    if (w) (void)w->release();  // no destructor: as after SIGKILL
    _exit(w ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  auto alive = Workspace::create(root_ + "/");  // removes the dead one
  ASSERT_TRUE(alive);
  fs::create_directory(root_ + "/berth-noted");  // no note: not known to be dead
  fs::create_directory(root_ + "/somebody-else");
  EXPECT_EQ(remove_stale_workspaces(root_), 0);
  int left = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(root_)) ++left;
  EXPECT_EQ(left, 3);
  EXPECT_TRUE(fs::exists((*alive)->path()));
}

TEST_F(WorkspaceTest, AStaleFolderOfAnotherUserStays) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to make a folder of another user";
  std::string other = root_ + "/berth-other";
  fs::create_directory(other);
  std::ofstream(other + "/agent") << "an-older-boot 1 1\n";
  ASSERT_EQ(chown(other.c_str(), 65534, 65534), 0);
  EXPECT_EQ(remove_stale_workspaces(root_), 0);
  EXPECT_TRUE(fs::exists(other));
}

}  // namespace
}  // namespace berth::agent
