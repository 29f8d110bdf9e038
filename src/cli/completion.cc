#include "cli/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace berth::cli {
namespace {

// First words, and for groups their second words.
std::string first_words(const std::vector<Command>& table) {
  std::vector<std::string> words;
  for (const Command& c : table) {
    if (c.shown == Shown::no) continue;
    std::string word(c.name.substr(0, c.name.find(' ')));
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  }
  return fmt::format("{}", fmt::join(words, " "));
}

std::vector<std::pair<std::string, std::string>> groups(const std::vector<Command>& table) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Command& c : table) {
    size_t space = c.name.find(' ');
    if (space == std::string_view::npos || c.shown == Shown::no) continue;
    std::string word(c.name.substr(0, space)), verb(c.name.substr(space + 1));
    if (out.empty() || out.back().first != word)
      out.emplace_back(word, verb);
    else
      out.back().second += " " + verb;
  }
  return out;
}

// What a bash `case` branch does for a value of this kind.
std::string offer(Completes completes, const std::vector<std::string_view>& choices) {
  switch (completes) {
    case Completes::files:
      return "compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$cur\"))";
    case Completes::folders:
      return "compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- \"$cur\"))";
    case Completes::services:
      return "_berth_services";
    case Completes::choices:
      return fmt::format("COMPREPLY=($(compgen -W \"{}\" -- \"$cur\"))", fmt::join(choices, " "));
    case Completes::nothing:
      break;
  }
  return "COMPREPLY=()";
}

std::string option_words(const Command& c) {
  std::string out;
  for (const Option& o : c.options) out += fmt::format("{} ", o.name);
  return out + "--help";
}

// The branch for one command: values of its options, else its options or its argument.
std::string branch(const Command& c) {
  std::string name(c.name);
  std::replace(name.begin(), name.end(), ' ', '-');
  std::string out = fmt::format("    {})\n      case \"$prev\" in\n", name);
  for (const Option& o : c.options) {
    if (o.value.empty()) continue;
    std::string pattern(o.name);
    if (o.letter) pattern += fmt::format("|-{}", o.letter);
    out += fmt::format("        {}) {}; return ;;\n", pattern, offer(o.completes, o.choices));
  }
  out += "      esac\n";
  std::string argument = c.positionals.empty()
                             ? std::string("COMPREPLY=()")
                             : offer(c.positionals[0].completes, c.positionals[0].choices);
  out += fmt::format(
      "      if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W \"{}\" -- \"$cur\"))\n"
      "      else {}; fi ;;\n",
      option_words(c), argument);
  return out;
}

std::string functions(const std::vector<Command>& table) {
  std::string out =
      "_berth_services() {\n"
      "  local IFS=$'\\n'\n"
      "  COMPREPLY=($(compgen -W \"$(berth ps --names 2>/dev/null)\" -- \"$cur\"))\n"
      "}\n"
      "_berth() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command i\n"
      "  COMPREPLY=()\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do [[ ${COMP_WORDS[i]} != -- ]] || return; done\n"
      "  if ((COMP_CWORD == 1)); then\n";
  out += fmt::format("    COMPREPLY=($(compgen -W \"{}\" -- \"$cur\")); return\n  fi\n",
                     first_words(table));
  out += "  command=${COMP_WORDS[1]}\n  case \"$command\" in\n";
  for (const auto& [word, verbs] : groups(table))
    out += fmt::format(
        "    {})\n      if ((COMP_CWORD == 2)); then\n"
        "        COMPREPLY=($(compgen -W \"{}\" -- \"$cur\")); return\n      fi\n"
        "      command=$command-${{COMP_WORDS[2]}} ;;\n",
        word, verbs);
  out += "  esac\n  case \"$command\" in\n";
  for (const Command& c : table)
    if (c.shown == Shown::yes) out += branch(c);
  return out + "  esac\n}\n";
}

}  // namespace

std::string bash_completion(const std::vector<Command>& table) {
  return "# bash completion for berth; put it into /etc/bash_completion.d/berth, or:\n"
         "#   source <(berth completion bash)\n" +
         functions(table) + "complete -F _berth berth\n";
}

// zsh's compgen lists the whole folder whatever was typed; so files are found by sh.
std::string zsh_completion(const std::vector<Command>& table) {
  std::string text = functions(table);
  for (auto [from, to] :
       {std::pair<std::string_view, std::string_view>{"compgen -f -- \"$cur\"", "_berth_files -e"},
        {"compgen -d -- \"$cur\"", "_berth_files -d"}})
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;)
      text.replace(at, from.size(), to);
  return "#compdef berth\n"
         "# zsh completion for berth; source it, or put it into a folder of $fpath as _berth.\n"
         "autoload -U +X bashcompinit && bashcompinit\n"
         "_berth_files() {\n"
         "  sh -c 'for f in \"$2\"*; do [ \"$1\" \"$f\" ] && printf \"%s\\n\" \"$f\"; done' sh "
         "\"$1\" "
         "\"$cur\"\n"
         "}\n" +
         text + "complete -F _berth berth\n";
}

}  // namespace berth::cli
