#include "cli/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace berth::cli {
namespace {

using ::testing::HasSubstr;

class TargetTest : public ::testing::Test {
 protected:
  TargetTest() {
    char name[] = "/tmp/berth-target-XXXXXX";
    home_ = ::mkdtemp(name);
    environment_["HOME"] = home_;
  }
  ~TargetTest() override { std::filesystem::remove_all(home_); }

  Result<Target> find() { return find_target(environment_); }

  std::string home_;
  std::map<std::string, std::string> environment_;
};

TEST_F(TargetTest, Urls) {
  auto t = parse_url("http://10.0.0.1:7270");
  ASSERT_TRUE(t);
  EXPECT_EQ(t->host, "10.0.0.1");
  EXPECT_EQ(t->port, 7270);
  EXPECT_EQ(parse_url("https://berth.example.org/v1")->port, 443);
  EXPECT_EQ(parse_url("http://[::1]:80/")->host, "::1");
  EXPECT_EQ(parse_url("http://[::1]")->port, 80);
  auto u = parse_url("unix:/run/berth.sock");
  ASSERT_TRUE(u);
  EXPECT_EQ(u->path, "/run/berth.sock");
  EXPECT_EQ(u->scheme, Target::Scheme::unix_socket);
  for (const char* bad :
       {"", "localhost:80", "ftp://x", "http://", "http://x:0", "http://x:99999", "http://x:8o",
        "http://x/other", "http://sk-key@x", "unix:relative", "http://a b"})
    EXPECT_FALSE(parse_url(bad)) << bad;
  EXPECT_FALSE(parse_url("unix:/" + std::string(107, 'a')));
}

TEST_F(TargetTest, NothingSetSaysWhatToDo) {
  auto t = find();
  ASSERT_FALSE(t);
  EXPECT_THAT(t.error().message, HasSubstr("set BERTH_URL"));
}

TEST_F(TargetTest, LoginFileRoundTrip) {
  std::string path = login_path(environment_);
  EXPECT_EQ(path, home_ + "/.config/berth/login");
  ASSERT_TRUE(write_login(path, "http://b:1", "sk-1"));
  ASSERT_TRUE(write_login(path, "http://b:2", "sk-2")) << "replaces the old one";
  struct stat st {};
  ASSERT_EQ(::stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  auto t = find();
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->port, 2);
  EXPECT_EQ(t->key, "sk-2");
  EXPECT_EQ(t->source, path);
}

TEST_F(TargetTest, LoginFileThatOthersCanReadIsRefused) {
  std::string path = login_path(environment_);
  ASSERT_TRUE(write_login(path, "http://b:1", "sk-1"));
  ::chmod(path.c_str(), 0640);
  auto t = find();
  ASSERT_FALSE(t);
  EXPECT_THAT(t.error().message, HasSubstr("can be read by others"));
  environment_["BERTH_URL"] = "http://c:1";
  EXPECT_TRUE(find()) << "not needed then";
  EXPECT_EQ(find()->key, "");
}

TEST_F(TargetTest, DamagedLoginFile) {
  std::string path = login_path(environment_);
  ASSERT_TRUE(write_login(path, "http://b:1", "sk-1"));
  std::ofstream(path) << "url: [";
  EXPECT_THAT(find().error().message, HasSubstr("damaged"));
}

TEST_F(TargetTest, AKeyGoesOnlyToTheUrlBesideIt) {
  ASSERT_TRUE(write_login(login_path(environment_), "http://b:1", "sk-1"));
  environment_["BERTH_URL"] = "http://evil:1";
  EXPECT_EQ(find()->key, "");
  environment_["BERTH_URL"] = "http://b:1";
  EXPECT_EQ(find()->key, "sk-1");
  environment_["BERTH_KEY"] = "sk-9";
  EXPECT_EQ(find()->key, "sk-9");
}

TEST_F(TargetTest, ProxyVariablesDoNotMatter) {  // A03
  environment_["BERTH_URL"] = "http://127.0.0.1:7270";
  for (const char* name : {"http_proxy", "https_proxy", "ALL_PROXY"})
    environment_[name] = "http://127.0.0.1:9";
  auto t = find();
  ASSERT_TRUE(t);
  EXPECT_EQ(t->host, "127.0.0.1");
  EXPECT_EQ(t->port, 7270);
}

TEST_F(TargetTest, TheDaemonsOwnSocketIsTheLastResort) {
  std::string folder = home_ + "/.local/state/berth";
  std::filesystem::create_directories(folder);
  int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (folder + "/berth.sock").c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  auto t = find();
  ::close(fd);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->scheme, Target::Scheme::unix_socket);
  EXPECT_EQ(t->source, "default");
}

}  // namespace
}  // namespace berth::cli
