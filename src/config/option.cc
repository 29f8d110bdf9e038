#include "config/option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/nearest.h"
#include "config/yaml_read.h"

namespace berth::config {
namespace {

using V = OptionValue;

constexpr int64_t kMiB = int64_t{1} << 20;

std::string environment_name(std::string_view option) {
  std::string out = "BERTH_";
  for (char c : option)
    out += c == '.' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return out;
}

bool is_address(std::string_view text) {
  size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  std::string why;
  auto port = parse_integer(text.substr(colon + 1), why);
  std::string_view host = text.substr(0, colon);
  bool bracketed = host.starts_with('[') && host.ends_with(']') && host.size() > 2;
  return port && *port >= 0 && *port <= 65535 &&
         (bracketed || host.find_first_of(":[] \t/") == std::string_view::npos);
}

// One value of a file, a variable or a flag, checked against its declaration.
std::optional<V> read_value(const Option& o, const YamlNode& node, Problems& problems) {
  YamlReader read(problems);
  switch (o.type) {
    case OptionType::text:
    case OptionType::path: {
      auto v = read.raw_text(node, o.name);
      if (!v) return std::nullopt;
      if (node.kind == YamlNode::Kind::null) v->clear();
      return V(*v);
    }
    case OptionType::address: {
      auto v = read.text(node, o.name);
      if (!v) return std::nullopt;
      if (is_address(*v)) return V(*v);
      problems.add(node.mark, fmt::format("{} must be host:port, such as 127.0.0.1:7270 or "
                                          "[::1]:7270, not \"{}\"",
                                          o.name, v->substr(0, 60)));
      return std::nullopt;
    }
    case OptionType::integer: {
      auto v = read.integer(node, o.name, {o.least, o.most});
      return v ? std::optional<V>(*v) : std::nullopt;
    }
    case OptionType::boolean: {
      auto v = read.boolean(node, o.name);
      return v ? std::optional<V>(*v) : std::nullopt;
    }
    case OptionType::duration: {
      auto v = read.duration(node, o.name, Duration(o.least), Duration(o.most));
      return v ? std::optional<V>(*v) : std::nullopt;
    }
    case OptionType::choice: {
      auto v = read.one_of(node, o.name, o.choices);
      return v ? std::optional<V>(*v) : std::nullopt;
    }
    case OptionType::texts: {
      auto v = read.texts(node, o.name);
      return v ? std::optional<V>(*v) : std::nullopt;
    }
    case OptionType::bytes:
      break;
  }
  auto written = read.text(node, o.name);
  if (!written) return std::nullopt;
  auto n = parse_bytes(*written);
  if (n && *n >= o.least && *n <= o.most) return V(*n);
  problems.add(node.mark,
               fmt::format("{} must be a size between {} KiB and {} MiB, such as 64MiB, "
                           "not \"{}\"",
                           o.name, o.least / 1024, o.most / kMiB, written->substr(0, 60)));
  return std::nullopt;
}

// As one would write it again.
std::string written(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::list) return node.text;
  std::vector<std::string> parts;
  for (const YamlNode& item : node.items) parts.push_back(item.text);
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

// Names that may stand at this level of the file: below `prefix`.
std::vector<std::string> names_below(const std::string& prefix) {
  std::vector<std::string> out;
  for (const Option& o : options()) {
    std::string_view rest = o.name;
    if (!rest.starts_with(prefix)) continue;
    rest.remove_prefix(prefix.size());
    std::string name(rest.substr(0, rest.find('.')));
    if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  }
  return out;
}

class Loading {
 public:
  explicit Loading(const ConfigInput& input) : input_(input), problems_(label(input)) {}

  Result<LoadedConfig> run() {
    for (const Option& o : options()) {
      Setting setting{std::string(o.name), std::string(o.fallback), Origin::fallback, "default"};
      YamlNode node = parse_scalar(o, setting.value);
      apply(o, node, std::move(setting));
    }
    read_file();
    read_environment();
    read_command_line();
    resolve();
    check();
    if (!problems_.empty()) return invalid_argument(problems_.to_text());
    return std::move(loaded_);
  }

 private:
  static std::string label(const ConfigInput& input) {
    return input.file_name.empty() ? "configuration" : input.file_name;
  }

  // A value given outside the file: lists may be written as "[a, b]" or "a,b".
  static YamlNode parse_scalar(const Option& o, const std::string& text) {
    YamlNode node;
    node.kind = YamlNode::Kind::scalar;
    node.text = text;
    if (o.type != OptionType::texts) return node;
    node.kind = YamlNode::Kind::list;
    std::string_view rest = text;
    if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
    while (!rest.empty()) {
      size_t comma = std::min(rest.find(','), rest.size());
      YamlNode item;
      item.kind = YamlNode::Kind::scalar;
      item.text = rest.substr(0, comma);
      size_t first = item.text.find_first_not_of(' ');
      item.text.erase(0, std::min(first, item.text.size()));
      node.items.push_back(std::move(item));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    return node;
  }

  void apply(const Option& o, const YamlNode& node, Setting setting) {
    auto value = read_value(o, node, problems_);
    if (!value) return;
    o.set(loaded_.config, *value);
    for (Setting& known : loaded_.settings)
      if (known.name == setting.name) {
        known = std::move(setting);
        return;
      }
    loaded_.settings.push_back(std::move(setting));
  }

  void read_file() {
    if (input_.file_name.empty()) return;
    std::vector<YamlNode> documents = parse_yaml(input_.file_text, problems_);
    if (documents.size() > 1)
      problems_.add(documents[1].mark, "a configuration file holds one document");
    if (!documents.empty()) read_members(documents[0], "");
  }

  void read_members(const YamlNode& map, const std::string& prefix) {
    YamlReader read(problems_);
    std::string what = prefix.empty() ? "the configuration" : prefix.substr(0, prefix.size() - 1);
    if (!read.members(map, what, names_below(prefix))) return;
    for (const auto& [key, value] : map.members) {
      std::string name = prefix + key.text;
      if (const Option* o = find_option(name)) {
        Setting setting{name, written(value), Origin::file,
                        fmt::format("{}:{}", input_.file_name, key.mark.line)};
        apply(*o, value, std::move(setting));
      } else if (!names_below(name + ".").empty() && value.kind != YamlNode::Kind::null) {
        read_members(value, name + ".");
      }
    }
  }

  void read_environment() {
    for (const Option& o : options()) {
      std::string variable = environment_name(o.name);
      auto it = input_.environment.find(variable);
      if (it == input_.environment.end()) continue;
      apply(o, parse_scalar(o, it->second),
            {std::string(o.name), it->second, Origin::environment, "environment " + variable});
    }
  }

  void read_command_line() {
    for (const auto& [name, value] : input_.command_line)
      if (const Option* o = find_option(name))
        apply(*o, parse_scalar(*o, value), {name, value, Origin::command_line, "command line"});
  }

  std::string variable(const char* name) const {
    auto it = input_.environment.find(name);
    return it == input_.environment.end() ? "" : it->second;
  }

  // Makes paths absolute and fills in what depends on the environment.
  void resolve() {
    Config& c = loaded_.config;
    if (c.state_dir.empty()) c.state_dir = variable("STATE_DIRECTORY");
    if (c.state_dir.empty() && !variable("XDG_STATE_HOME").empty())
      c.state_dir = variable("XDG_STATE_HOME") + "/berth";
    if (c.state_dir.empty() && !variable("HOME").empty())
      c.state_dir = variable("HOME") + "/.local/state/berth";
    if (c.state_dir.empty())
      problems_.add({}, "state_dir is not set, and neither is HOME: say where the state goes");
    else if (c.state_dir[0] != '/' && !variable("PWD").empty())
      c.state_dir = variable("PWD") + "/" + c.state_dir;
    for (std::string* path : {&c.shared_dir, &c.tls.cert, &c.tls.key, &c.slurm.conf,
                              &c.slurm.bin_dir, &c.gateway.access_log})
      if (!path->empty() && (*path)[0] != '/' && *path != "-") *path = c.state_dir + "/" + *path;
  }

  void check() {
    const Config& c = loaded_.config;
    auto wrong = [&](std::string_view option, std::string text) {
      problems_.add({}, fmt::format("{} {} ({})", option, text, place(option)));
    };
    if (c.lease.heartbeat * 2 > c.lease.ttl)
      wrong("lease.heartbeat", "must be at most half of lease.ttl, so that one may be lost");
    if (c.tls.cert.empty() != c.tls.key.empty())
      wrong(c.tls.cert.empty() ? "tls.key" : "tls.cert", "needs the other of tls.cert and tls.key");
    if (c.node_address.from == NodeAddressFrom::cidr && c.node_address.cidr.empty())
      wrong("node_address.from", "is cidr, but node_address.cidr is not set");
    if (c.node_address.from == NodeAddressFrom::interface && c.node_address.interface.empty())
      wrong("node_address.from", "is interface, but node_address.interface is not set");
    for (const std::string& name : c.node_address.names)
      if (name.find("{node}") == std::string::npos)
        wrong("node_address.names",
              fmt::format("has \"{}\" without {{node}}: it would be every node's", name));
    if (c.role == Role::gateway && c.controller.url.empty())
      wrong("role", "is gateway, but controller.url is not set");
    if (c.backoff.first > c.backoff.most)
      wrong("backoff.first", "must not be longer than backoff.most");
  }

  std::string place(std::string_view option) const {
    for (const Setting& s : loaded_.settings)
      if (s.name == option) return s.place;
    return "default";
  }

  const ConfigInput& input_;
  Problems problems_;
  LoadedConfig loaded_;
};

std::string allowed(const Option& o) {
  switch (o.type) {
    case OptionType::integer:
      return fmt::format("{} to {}", o.least, o.most);
    case OptionType::duration:
      return fmt::format("{} to {}", to_human(Duration(o.least)), to_human(Duration(o.most)));
    case OptionType::choice:
      return fmt::format("{}", fmt::join(o.choices, ", "));
    case OptionType::boolean:
      return "true, false";
    case OptionType::bytes:
      return "a size, such as 64MiB";
    case OptionType::address:
      return "host:port";
    case OptionType::texts:
      return "a list";
    case OptionType::text:
      return "text";
    case OptionType::path:
      return "a path";
  }
  return "";
}

}  // namespace

Result<LoadedConfig> load_config(const ConfigInput& input) { return Loading(input).run(); }

std::vector<std::string> needing_restart(const LoadedConfig& before, const LoadedConfig& after) {
  std::vector<std::string> out;
  for (const Setting& was : before.settings)
    for (const Setting& is : after.settings)
      if (was.name == is.name && was.value != is.value &&
          find_option(was.name)->needs_restart == NeedsRestart::yes)
        out.push_back(was.name);
  return out;
}

std::string config_reference() {
  std::string out =
      "# Configuration\n\nGenerated from the declarations in `src/config/option.cc`; `berth config "
      "check FILE` checks a file against\nthem and `berth config show` prints the values in "
      "effect and where each comes from.\n\nThe file is YAML; the dots of a name are nesting. The "
      "command line wins over the environment, the environment over\nthe file. A reload (SIGHUP) "
      "applies the options marked *reload*; the others wait for a restart.\n\n"
      "| option | default | allowed | effect | meaning |\n| --- | --- | --- | --- | --- |\n";
  for (const Option& o : options())
    out += fmt::format("| `{}` | {} | {} | {}{} | {} |\n", o.name,
                       o.fallback.empty() ? "" : fmt::format("`{}`", o.fallback), allowed(o),
                       o.needs_restart == NeedsRestart::no ? "reload" : "restart",
                       o.visibility == Visibility::expert ? ", expert" : "", o.help);
  return out;
}

std::string show_config(const LoadedConfig& loaded) {
  size_t width = 0;
  for (const Setting& s : loaded.settings)
    width = std::max(width, s.name.size() + 2 + std::max<size_t>(s.value.size(), 2));
  width = std::min<size_t>(width, 60);
  std::string out;
  for (const Setting& s : loaded.settings) {
    std::string line = fmt::format("{}: {}", s.name, s.value.empty() ? "\"\"" : s.value);
    out += fmt::format("{:<{}}  # {}\n", line, width, s.place);
  }
  return out;
}

}  // namespace berth::config
