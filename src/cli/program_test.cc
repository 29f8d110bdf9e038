#include "cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "cli/context.h"

namespace berth::cli {
namespace {

using ::testing::HasSubstr;

struct Ran {
  int status;
  std::string out;
  std::string err;
};

Ran run(std::vector<const char*> words) {
  words.insert(words.begin(), "berth");
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  int status = run_program(static_cast<int>(words.size()), words.data());
  std::string out = ::testing::internal::GetCapturedStdout();
  return {status, out, ::testing::internal::GetCapturedStderr()};
}

TEST(Program, WritesToTheRightPlaces) {
  Ran ran = run({"version"});
  EXPECT_EQ(ran.status, exit_ok);
  EXPECT_THAT(ran.out, HasSubstr("berth "));
  EXPECT_EQ(ran.err, "");
  ran = run({"vresion"});
  EXPECT_EQ(ran.status, exit_usage);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, HasSubstr("did you mean \"version\"?"));
}

TEST(Program, FilesAndAddresses) {
  std::string file = std::string(BERTH_SOURCE_DIR) + "/examples/services/vllm.yaml";
  ::setenv("BERTH_URL", "http://127.0.0.1:1", 1);
  ::setenv("BERTH_KEY", "sk-secret", 1);
  Ran ran = run({"apply", "-f", file.c_str()});
  ::unsetenv("BERTH_URL");
  ::unsetenv("BERTH_KEY");
  EXPECT_EQ(ran.status, exit_failed) << "nothing listens there, so nothing was done";
  EXPECT_THAT(ran.err, HasSubstr("apply qwen3-coder-30b: Berth at http://127.0.0.1:1"));
  EXPECT_THAT(ran.err, ::testing::Not(HasSubstr("secret")));
  EXPECT_EQ(run({"apply", "-f", "/nonexistent.yaml"}).status, exit_failed);
}

}  // namespace
}  // namespace berth::cli
