#include "cli/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/nearest.h"

namespace berth::cli {
namespace {

const Option* find_option(const Command& command, std::string_view name) {
  for (const Option& o : command.options)
    if (o.name == name || (o.letter && name.size() == 2 && name[0] == '-' && name[1] == o.letter))
      return &o;
  if (name == kHelpOption.name || name == "-h") return &kHelpOption;
  return nullptr;
}

Error usage(const Command& command, std::string text) {
  return invalid_argument(
      fmt::format("{}: {}; see `berth {} --help`", command.name, text, command.name));
}

Error unknown_option(const Command& command, std::string_view name) {
  std::vector<std::string> names;
  for (const Option& o : command.options) names.emplace_back(o.name);
  return usage(command, fmt::format("unknown option {}{}", name, did_you_mean(name, names)));
}

Status check_choice(const Command& command, std::string_view what, const std::string& value,
                    const std::vector<std::string_view>& choices) {
  if (choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end())
    return {};
  std::vector<std::string> names(choices.begin(), choices.end());
  return usage(command, fmt::format("{} must be one of {}, not \"{}\"{}", what,
                                    fmt::join(names, ", "), value, did_you_mean(value, names)));
}

class ArgumentReader {
 public:
  ArgumentReader(const Command& command, const std::vector<std::string>& words)
      : command_(command), words_(words) {}

  Result<Arguments> run() {
    for (; at_ < words_.size(); ++at_) {
      const std::string& word = words_[at_];
      if (word == "--") {
        out_.rest.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_) + 1, words_.end());
        rest_given_ = true;
        break;
      }
      Status ok;
      if (word.starts_with("--"))
        ok = long_option(word);
      else if (word.size() > 1 && word[0] == '-')
        ok = short_option(word);
      else
        out_.positionals.push_back(word);
      if (!ok) return ok.error();
    }
    if (out_.has("--help")) return std::move(out_);
    if (Status ok = check(); !ok) return ok.error();
    return std::move(out_);
  }

 private:
  Status long_option(const std::string& word) {
    size_t equals = word.find('=');
    std::string name = word.substr(0, equals);
    const Option* o = find_option(command_, name);
    if (!o) return unknown_option(command_, name);
    if (o->value.empty()) {
      if (equals != std::string::npos) return usage(command_, name + " takes no value");
      return store(*o, "1");
    }
    if (equals != std::string::npos) return store(*o, word.substr(equals + 1));
    return next_value(*o);
  }

  // "-f VALUE", "-fVALUE", "-x".
  Status short_option(const std::string& word) {
    const Option* o = find_option(command_, word.substr(0, 2));
    if (!o) return unknown_option(command_, word.substr(0, 2));
    if (o->value.empty()) {
      if (word.size() > 2) return unknown_option(command_, word);
      return store(*o, "1");
    }
    if (word.size() > 2) return store(*o, word.substr(2));
    return next_value(*o);
  }

  Status next_value(const Option& o) {
    if (at_ + 1 >= words_.size() || words_[at_ + 1] == "--")
      return usage(command_, fmt::format("{} needs a value, {}", o.name, o.value));
    return store(o, words_[++at_]);
  }

  Status store(const Option& o, std::string value) {
    if (Status ok = check_choice(command_, o.name, value, o.value.empty() ? kNone : o.choices); !ok)
      return ok;
    auto& values = out_.options[std::string(o.name)];
    if (!values.empty() && o.repeat == Repeat::once && !o.value.empty())
      return usage(command_, fmt::format("{} is given twice", o.name));
    values.push_back(std::move(value));
    return {};
  }

  Status check() {
    size_t least = 0;
    for (const Positional& p : command_.positionals)
      if (p.count == Positional::Count::one) ++least;
    if (out_.positionals.size() < least)
      return usage(command_, fmt::format("{} is missing",
                                         command_.positionals[out_.positionals.size()].name));
    if (out_.positionals.size() > command_.positionals.size())
      return usage(command_,
                   fmt::format("unexpected \"{}\"", out_.positionals[command_.positionals.size()]));
    for (size_t i = 0; i < out_.positionals.size(); ++i)
      if (Status ok = check_choice(command_, command_.positionals[i].name, out_.positionals[i],
                                   command_.positionals[i].choices);
          !ok)
        return ok;
    if (rest_given_ && command_.rest == Rest::none) return usage(command_, "nothing may follow --");
    if (out_.rest.empty() && command_.rest == Rest::required)
      return usage(command_, fmt::format("-- {} is missing", command_.rest_help));
    return {};
  }

  static inline const std::vector<std::string_view> kNone;

  const Command& command_;
  const std::vector<std::string>& words_;
  size_t at_ = 0;
  bool rest_given_ = false;
  Arguments out_;
};

}  // namespace

const Option kHelpOption{"--help", 'h', "", "say what the command does and stop"};

std::string Arguments::value(std::string_view option) const {
  const auto& all = values(option);
  return all.empty() ? "" : all.back();
}

const std::vector<std::string>& Arguments::values(std::string_view option) const {
  static const std::vector<std::string> none;
  auto it = options.find(option);
  return it == options.end() ? none : it->second;
}

const Command* find_command(const std::vector<Command>& table,
                            const std::vector<std::string>& words, size_t& taken) {
  for (size_t count : {2, 1}) {
    if (words.size() < count) continue;
    std::string name = words[0];
    if (count == 2) name += " " + words[1];
    for (const Command& c : table) {
      if (c.name != name) continue;
      taken = count;
      return &c;
    }
  }
  return nullptr;
}

Result<Arguments> parse_arguments(const Command& command, const std::vector<std::string>& words) {
  return ArgumentReader(command, words).run();
}

}  // namespace berth::cli
