#include "cli/commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <sstream>

#include "cli/api_fake.h"

namespace berth::cli {
namespace {

using ::testing::HasSubstr;

TEST(Commands, NamesAndOptionsAreUnique) {
  std::set<std::string_view> names;
  for (const Command& c : commands()) {
    EXPECT_TRUE(names.insert(c.name).second) << c.name;
    std::set<std::string> options{"--help", "-h"};
    for (const Option& o : c.options) {
      EXPECT_TRUE(options.insert(std::string(o.name)).second) << c.name << o.name;
      if (o.letter) {
        EXPECT_TRUE(options.insert(std::string("-") + o.letter).second) << c.name << o.letter;
      }
      EXPECT_EQ(o.completes == Completes::choices, !o.choices.empty()) << c.name << o.name;
    }
  }
}

TEST(Commands, UsageMistakesAreStatus2) {
  Terminal t;
  EXPECT_EQ(t.run({}), exit_usage);
  EXPECT_THAT(t.err, HasSubstr("Usage: berth COMMAND"));
  EXPECT_EQ(t.run({"aply"}), exit_usage);
  EXPECT_THAT(t.err, HasSubstr("unknown command \"aply\"; did you mean \"apply\"?"));
  EXPECT_EQ(t.run({"apply"}), exit_usage);
  EXPECT_THAT(t.err, HasSubstr("apply: --file is missing"));
  EXPECT_EQ(t.run({"agent", "--", "x"}), exit_usage);
  EXPECT_THAT(t.err, HasSubstr("--service is missing"));
  EXPECT_EQ(t.run({"key"}), exit_usage);
  EXPECT_THAT(t.err, HasSubstr("berth key revoke ID"));
  EXPECT_EQ(t.run({"ps", "--bogus"}), exit_usage);
  EXPECT_TRUE(t.api.requests.empty());
}

TEST(Commands, HelpIsOnStandardOutput) {
  Terminal t;
  for (std::vector<std::string> words : {std::vector<std::string>{"--help"},
                                         {"help"},
                                         {"ps", "--help"},
                                         {"help", "key", "create"},
                                         {"key", "--help"},
                                         {"key", "create", "-h"},
                                         {"--version"},
                                         {"version"},
                                         {"completion", "bash"}}) {
    EXPECT_EQ(t.run(words), exit_ok) << words[0];
    EXPECT_NE(t.out, "") << words[0];
    EXPECT_EQ(t.err, "") << words[0];
  }
}

// --- a walk over the whole table ---------------------------------------------------------------

std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words;
  std::stringstream stream{std::string(name)};
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::string sample(const Positional& p) {
  if (!p.choices.empty()) return std::string(p.choices[0]);
  return p.name == "REPLICAS" ? "2" : "x";
}

std::string sample(const Option& o) { return o.choices.empty() ? "1" : std::string(o.choices[0]); }

// The shortest command line that is right.
std::vector<std::string> least_of(const Command& c) {
  std::vector<std::string> words = words_of(c.name);
  for (const Positional& p : c.positionals)
    if (p.count == Positional::Count::one) words.push_back(sample(p));
  if (c.name == "apply" || c.name == "plan") words.insert(words.end(), {"-f", "s.yaml"});
  if (c.name == "deploy") words.insert(words.end(), {"--engine", "vllm", "--model", "/m"});
  if (c.name == "agent") words.insert(words.end(), {"--service", "x"});
  return words;
}

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more,
                              const Command& c) {
  words.insert(words.end(), more.begin(), more.end());
  if (c.rest == Rest::required) words.insert(words.end(), {"--", "true"});
  return words;
}

Terminal terminal() {
  Terminal t;
  t.files["s.yaml"] = "name: x\nengine: vllm\nmodel: /m\n";
  return t;
}

int run(const std::vector<std::string>& words, const std::function<void(ApiFake&)>& prepare) {
  Terminal t = terminal();
  prepare(t.api);
  return t.run(words);
}

const std::set<std::string_view> kReads = {"plan", "ps",     "explain",  "events",    "logs",
                                           "wait", "doctor", "key list", "grant list"};
const std::set<std::string_view> kChanges = {"apply",      "deploy",    "start",   "stop",
                                             "restart",    "scale",     "rm",      "key create",
                                             "key revoke", "grant add", "grant rm"};

TEST(CommandsWalk, EveryCommandIsSortedHere) {
  const std::set<std::string_view> local = {"login",      "chat",         "serve",
                                            "agent",      "config check", "config show",
                                            "completion", "version",      "shim"};
  for (const Command& c : commands())
    EXPECT_EQ(kReads.count(c.name) + kChanges.count(c.name) + local.count(c.name), 1u) << c.name;
}

TEST(CommandsWalk, WithJsonEachPrintsTheDocumentAsItCame) {
  const std::string body = R"({"v":1,  "status":"ready", "odd":[ 1.50, "\u00e9" ]})";
  for (const Command& c : commands()) {
    if (!kReads.count(c.name) && !kChanges.count(c.name)) continue;
    Terminal t = terminal();
    t.api.always().reply(200, body);
    EXPECT_EQ(t.run(with(least_of(c), {"--json"}, c)), exit_ok) << c.name << t.err;
    EXPECT_EQ(t.out, body + "\n") << c.name;
  }
}

TEST(CommandsWalk, ExitStatuses) {
  auto lost = [](ApiFake& api) { api.always().fail(Code::unknown_outcome, "closed"); };
  auto away = [](ApiFake& api) { api.always().fail(Code::unavailable, "refused"); };
  auto refused = [](ApiFake& api) {
    api.always().reply(403, R"({"error":{"message":"not yours"}})");
  };
  auto gateway = [](ApiFake& api) { api.always().reply(502, "<html>"); };
  for (const Command& c : commands()) {
    bool changes = kChanges.count(c.name) > 0;
    if (!changes && !kReads.count(c.name)) continue;
    std::vector<std::string> words = with(least_of(c), {}, c);
    EXPECT_EQ(run(words, refused), exit_failed) << c.name;
    EXPECT_EQ(run(words, away), exit_failed) << c.name << ": nothing was sent";
    EXPECT_EQ(run(words, lost), changes ? exit_unknown : exit_failed) << c.name;
    EXPECT_EQ(run(words, gateway), changes ? exit_unknown : exit_failed) << c.name;
  }
}

TEST(CommandsWalk, MistakesOnTheCommandLineAreStatus2AndAskNothing) {
  for (const Command& c : commands()) {
    Terminal t = terminal();
    auto wrong = [&](const std::vector<std::string>& more) {
      EXPECT_EQ(t.run(with(least_of(c), more, c)), exit_usage)
          << c.name << " " << (more.empty() ? "" : more[0]) << "\n"
          << t.err;
      EXPECT_THAT(t.err, HasSubstr("berth: " + std::string(c.name) + ": ")) << c.name;
      EXPECT_EQ(t.out, "") << c.name;
    };
    wrong({"--no-such-option"});
    wrong({"a", "b", "c", "d"});
    for (const Option& o : c.options) {
      std::string name(o.name);
      if (o.value.empty()) {
        wrong({name + "=1"});
        continue;
      }
      if (c.rest != Rest::required) wrong({name});
      if (!o.choices.empty()) wrong({name, "no-such-choice"});
      if (o.repeat == Repeat::once) wrong({name, sample(o), name, sample(o)});
    }
    for (const Positional& p : c.positionals)
      if (p.count == Positional::Count::one) {
        EXPECT_EQ(t.run(words_of(c.name)), exit_usage) << c.name;
      }
    EXPECT_TRUE(t.api.requests.empty()) << c.name;
  }
}

TEST(CommandsWalk, EveryOptionIsReadInEachForm) {
  for (const Command& c : commands())
    for (const Option& o : c.options) {
      std::string name(o.name), value = o.value.empty() ? "1" : sample(o);
      std::vector<std::vector<std::string>> forms = {{name}};
      if (!o.value.empty()) forms = {{name, value}, {name + "=" + value}};
      if (o.letter && o.value.empty()) forms.push_back({std::string("-") + o.letter});
      if (o.letter && !o.value.empty())
        forms.insert(forms.end(),
                     {{std::string("-") + o.letter, value}, {std::string("-") + o.letter + value}});
      for (const auto& form : forms) {
        std::vector<std::string> words;
        for (const Positional& p : c.positionals) words.push_back(sample(p));
        auto arguments = parse_arguments(c, with(words, form, c));
        ASSERT_TRUE(arguments) << c.name << form[0] << arguments.error().message;
        EXPECT_EQ(arguments->value(o.name), value) << c.name << " " << form[0];
      }
    }
}

TEST(CommandsWalk, ExamplesAreRight) {
  for (const Command& c : commands())
    for (std::string_view example : c.examples) {
      std::string text(example);
      for (const char* shell : {"export BERTH_KEY=$(", "source <(", "srun "})
        if (text.starts_with(shell)) text.erase(0, std::string(shell).size());
      if (text.ends_with(')')) text.pop_back();
      std::vector<std::string> words = words_of(text.substr(text.find("berth ") + 6));
      size_t taken = 0;
      const Command* found = find_command(commands(), words, taken);
      ASSERT_EQ(found, &c) << example;
      if (example.find('\'') != std::string_view::npos) continue;  // words of a shell, not ours
      words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(taken));
      EXPECT_TRUE(parse_arguments(c, words)) << example;
    }
}

TEST(Commands, RolesAreRegistered) {
  Terminal t;
  EXPECT_EQ(t.run({"serve"}), exit_failed);
  EXPECT_THAT(t.err, HasSubstr("serve is not in this program"));
  std::string state;
  set_role("serve", [&](Context&, const Arguments& a) {
    state = a.value("--state");
    return 7;
  });
  EXPECT_EQ(t.run({"serve", "--state", "/s"}), 7);
  EXPECT_EQ(state, "/s");
  set_role("serve", [](Context&, const Arguments&) { return 1; });
}

}  // namespace
}  // namespace berth::cli
