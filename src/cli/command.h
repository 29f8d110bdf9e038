// Commands as data: names, options, arguments, examples; and the parser driven by it.
//
// Help, shell completion and docs/ref/cli.md are made from the same table (command_help.h,
// completion.h), so that none can lag behind. The parser is our own: it is shorter than what a
// library would need to be driven by data, and keeps a slow header out of the build.
//
// Accepted: "--name VALUE", "--name=VALUE", "-f VALUE", "-fVALUE", flags, options anywhere before
// "--"; what follows "--" is handed on untouched. Threading: values.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace berth::cli {

struct Context;

enum class Repeat { once, many };
// What the shell offers for a value.
enum class Completes { nothing, files, folders, services, choices };

struct Option {
  std::string_view name;   // "--file"
  char letter = 0;         // 'f'; 0: none
  std::string_view value;  // "FILE"; empty: a flag
  std::string_view help;   // one line
  Repeat repeat = Repeat::once;
  Completes completes = Completes::nothing;
  std::vector<std::string_view> choices;  // shown, completed and checked
};

struct Positional {
  enum class Count { one, optional };
  std::string_view name;  // "NAME"
  Count count = Count::one;
  Completes completes = Completes::nothing;
  std::vector<std::string_view> choices;
};

// What follows "--".
enum class Rest { none, allowed, required };

class Arguments {
 public:
  bool has(std::string_view option) const { return !values(option).empty(); }
  // The last value of an option; "" when it was not given.
  std::string value(std::string_view option) const;
  const std::vector<std::string>& values(std::string_view option) const;
  std::string positional(size_t index) const {
    return index < positionals.size() ? positionals[index] : "";
  }

  std::map<std::string, std::vector<std::string>, std::less<>> options;  // flags have a value "1"
  std::vector<std::string> positionals;
  std::vector<std::string> rest;  // after "--"
};

enum class Shown { yes, no };

struct Command {
  std::string_view name;     // "ps", "key create"
  std::string_view summary;  // one line, no full stop
  std::vector<Positional> positionals;
  std::vector<Option> options;
  Rest rest = Rest::none;
  std::string_view rest_help;  // "COMMAND..."
  std::vector<std::string_view> examples;
  int (*run)(Context&, const Arguments&) = nullptr;
  Shown shown = Shown::yes;
  std::string_view group;  // of a group's first command: the group's line in the overview
};

// "-h, --help" of every command.
extern const Option kHelpOption;

// The command that the words name, and how many words that took; nullptr: none.
const Command* find_command(const std::vector<Command>& table,
                            const std::vector<std::string>& words, size_t& taken);

// invalid_argument with one sentence; "--help" is in the result's options and skips all checks.
Result<Arguments> parse_arguments(const Command& command, const std::vector<std::string>& words);

}  // namespace berth::cli
