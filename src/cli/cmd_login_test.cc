#include "cli/cmd_login.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/api_fake.h"
#include "cli/target.h"

namespace berth::cli {
namespace {

using ::testing::HasSubstr;

class CmdLogin : public ::testing::Test {
 protected:
  CmdLogin() {
    char name[] = "/tmp/berth-login-XXXXXX";
    home_ = ::mkdtemp(name);
    t_.context.environment["HOME"] = home_;
  }
  ~CmdLogin() override { std::filesystem::remove_all(home_); }
  std::string home_;
  Terminal t_;
};

TEST_F(CmdLogin, TriesTheKeyAndKeepsIt) {
  t_.context.in_is_terminal = true;
  t_.typed = {" sk-berth-1 "};
  t_.api.expect("GET", "/berth/v1/services").reply(200, "{}");
  EXPECT_EQ(t_.run({"login", "http://127.0.0.1:7270"}), exit_ok) << t_.err;
  EXPECT_EQ(t_.asked_key, "sk-berth-1");
  EXPECT_THAT(t_.out, ::testing::Not(HasSubstr("sk-berth")));
  auto target = find_target(t_.context.environment);
  ASSERT_TRUE(target);
  EXPECT_EQ(target->key, "sk-berth-1");
  EXPECT_EQ(target->url, "http://127.0.0.1:7270");
}

TEST_F(CmdLogin, AKeyThatDoesNotWorkIsNotKept) {
  t_.files["k"] = "sk-wrong\n";
  t_.api.expect("GET", "/berth/v1/services").reply(401, R"({"error":{"message":"no such key"}})");
  EXPECT_EQ(t_.run({"login", "http://h:1", "--key-file", "k"}), exit_failed);
  EXPECT_THAT(t_.err, HasSubstr("http://h:1 says: no such key"));
  EXPECT_FALSE(std::filesystem::exists(login_path(t_.context.environment)));
}

TEST_F(CmdLogin, Mistakes) {
  EXPECT_EQ(t_.run({"login"}), exit_usage);
  EXPECT_EQ(t_.run({"login", "h:1"}), exit_usage);
  t_.files["-"] = "two words\n";
  EXPECT_EQ(t_.run({"login", "http://h:1"}), exit_failed);
  EXPECT_THAT(t_.err, HasSubstr("that is no key"));
  EXPECT_TRUE(t_.api.requests.empty());
}

}  // namespace
}  // namespace berth::cli
