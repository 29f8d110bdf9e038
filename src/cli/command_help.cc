#include "cli/command_help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace berth::cli {
namespace {

std::string usage_line(const Command& command) {
  std::string out = fmt::format("berth {}", command.name);
  for (const Positional& p : command.positionals)
    out += p.count == Positional::Count::one ? fmt::format(" {}", p.name)
                                             : fmt::format(" [{}]", p.name);
  if (!command.options.empty()) out += " [OPTION...]";
  if (command.rest == Rest::allowed) out += fmt::format(" [-- {}]", command.rest_help);
  if (command.rest == Rest::required) out += fmt::format(" -- {}", command.rest_help);
  return out;
}

std::string sentence(std::string_view summary) {
  std::string out(summary);
  if (!out.empty()) out[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(out[0])));
  return out + ".";
}

std::string option_names(const Option& o) {
  std::string out = o.letter ? fmt::format("-{}, {}", o.letter, o.name) : std::string(o.name);
  if (!o.value.empty()) out += fmt::format(" {}", o.value);
  return out;
}

std::string option_meaning(const Option& o) {
  std::string out(o.help);
  if (!o.choices.empty()) out += fmt::format(" ({})", fmt::join(o.choices, ", "));
  if (o.repeat == Repeat::many) out += "; may be repeated";
  return out;
}

// The commands shown in the overview; those of a group ("key create") as one row.
std::vector<std::pair<std::string, std::string>> overview_rows(const std::vector<Command>& table) {
  std::vector<std::pair<std::string, std::string>> rows;
  std::string group;
  for (const Command& c : table) {
    if (c.shown == Shown::no) continue;
    size_t space = c.name.find(' ');
    if (space == std::string_view::npos) {
      group.clear();
      rows.emplace_back(c.name, c.summary);
      continue;
    }
    std::string word(c.name.substr(0, space)), verb(c.name.substr(space + 1));
    if (word == group) {
      rows.back().first += "|" + verb;
    } else {
      group = word;
      rows.emplace_back(c.name, c.group.empty() ? c.summary : c.group);
    }
  }
  return rows;
}

}  // namespace

std::string overview(const std::vector<Command>& table, std::string_view version) {
  std::string out = fmt::format(
      "berth {}. Usage: berth COMMAND [OPTION...]; berth COMMAND --help says more\n", version);
  size_t width = 0;
  auto rows = overview_rows(table);
  for (const auto& [name, summary] : rows) width = std::max(width, name.size());
  for (const auto& [name, summary] : rows)
    out += fmt::format("  {:<{}}  {}\n", name, width, summary);
  return out;
}

std::string command_help(const Command& command) {
  std::string out = fmt::format("usage: {}\n{}\n", usage_line(command), sentence(command.summary));
  size_t width = 0;
  std::vector<Option> options = command.options;
  options.push_back(kHelpOption);
  for (const Option& o : options) width = std::max(width, option_names(o).size());
  for (const Option& o : options)
    out += fmt::format("  {:<{}}  {}\n", option_names(o), width, option_meaning(o));
  for (std::string_view example : command.examples) out += fmt::format("e.g. {}\n", example);
  return out;
}

std::string group_help(const std::vector<Command>& table, std::string_view word) {
  std::string out;
  for (const Command& c : table)
    if (c.name.size() > word.size() && c.name.starts_with(word) && c.name[word.size()] == ' ')
      out += fmt::format("  {:<40}  {}\n", usage_line(c), c.summary);
  return out;
}

std::string cli_reference(const std::vector<Command>& table) {
  std::string out =
      "# Commands\n\nGenerated from the table in `src/cli/commands.cc`. Every command that talks "
      "to Berth reads `BERTH_URL`\n(`http://`, `https://` or `unix:/path`) and `BERTH_KEY`, or the "
      "file that `berth login` wrote. With `--json`\nthe API's document is printed as it came. "
      "Exit statuses: 0 done, 1 failed, 2 used wrongly, 3 not known whether\nit was done.\n";
  for (const Command& c : table) {
    if (c.shown == Shown::no) continue;
    out +=
        fmt::format("\n## berth {}\n\n{}\n\n    {}\n", c.name, sentence(c.summary), usage_line(c));
    if (!c.options.empty()) {
      out += "\n| option | meaning |\n| --- | --- |\n";
      for (const Option& o : c.options)
        out += fmt::format("| `{}` | {} |\n", option_names(o), option_meaning(o));
    }
    if (!c.examples.empty()) {
      out += "\n";
      for (std::string_view e : c.examples) out += fmt::format("    {}\n", e);
    }
  }
  return out;
}

}  // namespace berth::cli
