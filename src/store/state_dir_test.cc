#include "store/state_dir.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace berth::store {
namespace {

struct StateFolder {
  std::string path;
  StateFolder() {
    char name[] = "/tmp/berth-state-XXXXXX";
    path = mkdtemp(name);
  }
  ~StateFolder() { std::filesystem::remove_all(path); }
};

TEST(StateDir, ASecondOneIsRefusedByNameOfTheFirst) {
  StateFolder tmp;
  std::string dir = tmp.path + "/state";
  auto first = StateDir::open(dir);
  ASSERT_TRUE(first.ok());
  struct stat st {};
  ASSERT_EQ(stat(dir.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0700u);
  ASSERT_EQ(stat((dir + "/lock").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  auto second = StateDir::open(dir);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::conflict);
  EXPECT_NE(second.error().message.find("process " + std::to_string(getpid())), std::string::npos)
      << second.error().message;
  first.value().reset();
  EXPECT_TRUE(StateDir::open(dir).ok());
}

TEST(StateDir, KnowsFileSystemsThatMachinesShare) {
  for (uint64_t magic : {0x6969u, 0x0bd00bd0u, 0x47504653u, 0x19830326u, 0x00c36400u, 0x65735546u})
    EXPECT_TRUE(network_file_system(magic).has_value()) << magic;
  // Some architectures sign-extend f_type.
  EXPECT_EQ(network_file_system(0xffffffffff534d42), "CIFS");
  for (uint64_t magic : {0xef53u /* ext4 */, 0x58465342u /* XFS */, 0x01021994u /* tmpfs */,
                         0x9123683eu /* btrfs */, 0x794c7630u /* overlay */})
    EXPECT_FALSE(network_file_system(magic).has_value()) << magic;
}

TEST(StateDir, AMissingParentIsAnErrorThatNamesIt) {
  auto r = StateDir::open("/nonexistent/a/b");
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().message.find("/nonexistent/a/b"), std::string::npos);
}

}  // namespace
}  // namespace berth::store
