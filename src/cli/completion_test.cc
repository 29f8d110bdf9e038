#include "cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "cli/commands.h"

namespace berth::cli {
namespace {

using ::testing::HasSubstr;

// What bash offers for the last of these words, one a line.
std::string offered(const std::string& words, int count) {
  std::string path = ::testing::TempDir() + "berth-completion-" + std::to_string(::getpid());
  std::ofstream(path) << bash_completion(commands())
                      << "berth() { printf 'alice/qwen\\nbge-m3\\n'; }\n"
                      << "COMP_WORDS=(" << words << ")\nCOMP_CWORD=" << count - 1
                      << "\n_berth 2>/dev/null\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
  std::string out;
  if (FILE* bash = ::popen(("bash --norc " + path).c_str(), "r")) {
    char buffer[4096];
    while (size_t n = std::fread(buffer, 1, sizeof buffer, bash)) out.append(buffer, n);
    ::pclose(bash);
  }
  ::unlink(path.c_str());
  return out;
}

TEST(Completion, BashOffersWhatFits) {
  EXPECT_EQ(offered("berth ap", 2), "apply\n");
  EXPECT_EQ(offered("berth key ''", 3), "create\nlist\nrevoke\n");
  EXPECT_EQ(offered("berth logs --f", 3), "--follow\n");
  EXPECT_EQ(offered("berth logs a", 3), "alice/qwen\n");
  EXPECT_EQ(offered("berth deploy x --engine s", 5), "sglang\n");
  EXPECT_EQ(offered("berth key create --role ''", 5), "user\noperator\n");
  EXPECT_EQ(offered("berth completion z", 3), "zsh\n");
  EXPECT_THAT(offered("berth ''", 2), HasSubstr("serve\n"));
  EXPECT_EQ(offered("berth agent --service x -- vl", 6), "\n") << "not ours after --";
}

TEST(Completion, ZshUsesTheSame) {
  std::string text = zsh_completion(commands());
  EXPECT_THAT(text, HasSubstr("#compdef berth"));
  EXPECT_THAT(text, HasSubstr("bashcompinit"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("shim")));
}

}  // namespace
}  // namespace berth::cli
