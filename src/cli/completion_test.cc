#include "cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "cli/commands.h"

namespace berth::cli {
namespace {

using ::testing::HasSubstr;

enum class Shell { bash, zsh };

// One question to the shell: the words typed, the last of them being completed.
using Words = std::vector<std::string>;

std::string quoted(const Words& words) {
  std::string out;
  for (const std::string& w : words) out += "'" + w + "' ";
  return out;
}

// What a shell offers for each question: sorted words, one set a question. One shell for all. In
// zsh the functions run as bashcompinit runs them; `compopt` is not there.
std::vector<std::set<std::string>> offers(Shell shell, const std::vector<Words>& questions) {
  std::string path = ::testing::TempDir() + "berth-completion-" + std::to_string(::getpid());
  std::ofstream script(path);
  script << "cd /\n"
         << (shell == Shell::zsh ? "autoload -U +X compinit && compinit -D -u\n" : "")
         << (shell == Shell::zsh ? zsh_completion(commands()) : bash_completion(commands()))
         << "berth() { printf 'alice/qwen\\nbge-m3\\n'; }\n"
         << "ask() {\n"
         << (shell == Shell::zsh ? "emulate -L sh; setopt kshglob noshglob braceexpand ksharrays\n"
                                 : "")
         << "COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMPREPLY=()\n"
         << "_berth\nprintf '%s\\n' \"${COMPREPLY[@]}\"; echo ---; }\n";
  for (const Words& words : questions) script << "ask " << quoted(words) << "\n";
  script.close();
  std::string text, command = shell == Shell::zsh ? "zsh -f " : "bash --norc ";
  if (FILE* pipe = ::popen((command + path + " 2>&1").c_str(), "r")) {
    char buffer[4096];
    while (size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, n);
    ::pclose(pipe);
  }
  ::unlink(path.c_str());
  std::vector<std::set<std::string>> all(1);
  std::stringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line == "---")
      all.emplace_back();
    else if (!line.empty())
      all.back().insert(line);
  all.pop_back();
  return all;
}

std::string offered(const Words& words) {
  std::string out;
  auto all = offers(Shell::bash, {words});
  if (all.size() != 1) return "no answer";
  for (const std::string& word : all[0]) out += word + "\n";
  return out;
}

Words of_command(const Command& c, const Words& more) {
  Words words = {"berth"};
  std::stringstream name{std::string(c.name)};
  for (std::string word; name >> word;) words.push_back(word);
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

template <class Names>
std::set<std::string> set_of(const Names& names) {
  return {names.begin(), names.end()};
}

// Every command, option, choice and argument of the table, in one shell.
void walk(Shell shell) {
  std::vector<Words> questions;
  std::vector<std::set<std::string>> expected;
  auto expect = [&](Words words, std::set<std::string> offers) {
    questions.push_back(std::move(words));
    expected.push_back(std::move(offers));
  };
  const std::set<std::string> services = {"alice/qwen", "bge-m3"};
  auto value = [&](Completes completes, const std::vector<std::string_view>& choices,
                   const Words& words) {
    Words empty = words, etc = words;
    empty.push_back("");
    etc.push_back("/et");
    if (completes == Completes::choices) expect(empty, set_of(choices));
    if (completes == Completes::services) expect(empty, services);
    if (completes == Completes::files || completes == Completes::folders) expect(etc, {"/etc"});
    if (completes == Completes::nothing) expect(empty, {});
  };
  std::set<std::string> first;
  for (const Command& c : commands()) {
    if (c.shown == Shown::no) continue;
    first.insert(std::string(c.name.substr(0, c.name.find(' '))));
    std::set<std::string> options = {"--help"};
    for (const Option& o : c.options) {
      options.insert(std::string(o.name));
      if (o.value.empty()) continue;
      value(o.completes, o.choices, of_command(c, {std::string(o.name)}));
      if (o.letter) value(o.completes, o.choices, of_command(c, {std::string("-") + o.letter}));
    }
    expect(of_command(c, {"--"}), options);
    expect(of_command(c, {"--", ""}), {});
    if (!c.positionals.empty())
      value(c.positionals[0].completes, c.positionals[0].choices, of_command(c, {}));
  }
  expect({"berth", ""}, first);
  std::vector<std::set<std::string>> got = offers(shell, questions);
  ASSERT_EQ(got.size(), questions.size());
  for (size_t i = 0; i < questions.size(); ++i)
    EXPECT_EQ(got[i], expected[i]) << quoted(questions[i]);
}

TEST(Completion, BashKnowsTheWholeTable) { walk(Shell::bash); }

TEST(Completion, ZshKnowsTheWholeTable) {
  if (std::system("command -v zsh >/dev/null") != 0) GTEST_SKIP() << "zsh is not installed";
  walk(Shell::zsh);
}

TEST(Completion, BashOffersWhatFits) {
  EXPECT_EQ(offered({"berth", "ap"}), "apply\n");
  EXPECT_EQ(offered({"berth", "key", ""}), "create\nlist\nrevoke\n");
  EXPECT_EQ(offered({"berth", "logs", "--f"}), "--follow\n");
  EXPECT_EQ(offered({"berth", "logs", "a"}), "alice/qwen\n");
  EXPECT_EQ(offered({"berth", "deploy", "x", "--engine", "s"}), "sglang\n");
  EXPECT_EQ(offered({"berth", "agent", "--service", "x", "--", "vl"}), "") << "not ours after --";
}

TEST(Completion, ZshUsesTheSame) {
  std::string text = zsh_completion(commands());
  EXPECT_THAT(text, HasSubstr("#compdef berth"));
  EXPECT_THAT(text, HasSubstr("bashcompinit"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("shim")));
}

}  // namespace
}  // namespace berth::cli
