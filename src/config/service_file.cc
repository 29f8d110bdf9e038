#include "config/service_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "config/engines.h"
#include "config/yaml_read.h"
#include "model/names.h"

namespace berth::config {
namespace {

// The names as they are shown; - and _ are the same when they are read.
const std::vector<std::string> kServiceMembers = {"name",         "engine",
                                                  "model",        "args",
                                                  "command",      "served_model_name",
                                                  "setup",        "env",
                                                  "slurm",        "replicas",
                                                  "access",       "isolation",
                                                  "load_timeout", "drain_grace",
                                                  "log_dir",      "max_start_attempts"};
const std::vector<std::string> kSlurmMembers = {
    "partition", "account", "qos",     "reservation",   "constraint", "gpus",
    "gpu-type",  "nodes",   "exclude", "cpus-per-task", "mem",        "time"};
const std::vector<std::string> kAccessMembers = {"project", "projects", "user",  "users",
                                                 "group",   "groups",   "public"};

constexpr Isolation kIsolations[] = {Isolation::automatic, Isolation::unix_socket,
                                     Isolation::network_namespace, Isolation::loopback};

std::string with(std::string text, char from, char to) {
  std::replace(text.begin(), text.end(), from, to);
  return text;
}

// Keys in the spelling of `known`, so that "load-timeout" is load_timeout.
YamlNode spelled(const YamlNode& map, const std::vector<std::string>& known, Problems& problems) {
  YamlNode out = map;
  std::map<std::string, std::string> seen;  // as shown, as written
  for (auto& [key, value] : out.members) {
    std::string written = key.text, plain = with(key.text, '-', '_');
    for (const std::string& name : known)
      if (with(name, '-', '_') == plain) key.text = name;
    auto [first, fresh] = seen.emplace(key.text, written);
    // The same spelling twice has been reported by the parser.
    if (!fresh && first->second != written)
      problems.add(key.mark, fmt::format("\"{}\" is given twice", key.text));
  }
  return out;
}

// A value for one of sbatch's options: no spaces, quotes, control characters or leading dash, so
// that it is one argument and nothing else wherever it goes.
bool is_slurm_word(std::string_view text) {
  if (text.empty() || text.size() > 512 || text[0] == '-') return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    auto u = static_cast<unsigned char>(c);
    return u > 0x20 && u < 0x7F && c != '"' && c != '\'' && c != '\\' && c != '`' && c != '$' &&
           c != ';' && c != '<' && c != '>';
  });
}

bool is_env_name(std::string_view name) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), [&](char c) {
    return letter(c) || (c >= '0' && c <= '9');
  });
}

class ServiceReader {
 public:
  ServiceReader(const ServiceDefaults& defaults, Problems& problems)
      : problems_(problems), read_(problems) {
    spec_.load_timeout = defaults.load_timeout;
    spec_.drain_grace = defaults.drain_grace;
    spec_.max_start_attempts = static_cast<int>(defaults.max_start_attempts);
  }

  std::optional<DeclaredService> run(const YamlNode& node) {
    size_t before = problems_.all().size();
    if (node.kind != YamlNode::Kind::map) {
      read_.members(node, "a service", kServiceMembers);
      return std::nullopt;
    }
    map_ = spelled(node, kServiceMembers, problems_);
    read_.members(map_, "the service", kServiceMembers);
    identity();
    command_line();
    environment();
    if (const YamlNode* n = member("slurm")) slurm(*n);
    if (const YamlNode* n = member("access")) access(*n);
    limits();
    if (problems_.all().size() == before) together();
    if (problems_.all().size() != before) return std::nullopt;
    DeclaredService out;
    out.spec = std::move(spec_);
    out.mark = node.mark;
    for (const auto& [key, value] : map_.members) out.given.push_back(key.text);
    return out;
  }

 private:
  const YamlNode* member(std::string_view name) const { return map_.find(name); }
  Mark mark_of(std::string_view name) const {
    const YamlNode* n = member(name);
    return n ? n->mark : map_.mark;
  }
  void missing(std::string_view name, std::string_view why) {
    problems_.add(map_.mark, fmt::format("member \"{}\" is missing: {}", name, why));
  }

  void identity() {
    if (const YamlNode* n = member("name")) {
      if (auto v = read_.text(*n, "name")) {
        if (Status ok = check_service_name(*v); !ok) problems_.add(n->mark, ok.error().message);
        spec_.name = *v;
      }
    } else {
      missing("name", "what clients put in \"model\"");
    }
    if (const YamlNode* n = member("engine")) {
      auto v = read_.one_of(*n, "engine", {"vllm", "sglang", "llama-server", "tei", "command"});
      engine_known_ = v.has_value();
      if (v) spec_.engine = *parse_engine_kind(*v);
    } else if (member("command")) {
      engine_known_ = true;
    } else {
      missing("engine", "one of vllm, sglang, llama-server, tei, command");
    }
    if (const YamlNode* n = member("model")) {
      if (auto v = read_.text(*n, "model")) {
        if (v->starts_with('-')) problems_.add(n->mark, "model must not begin with \"-\"");
        one_line(*n, "model", *v);
        spec_.model = *v;
      }
    } else if (engine_known_ && spec_.engine != EngineKind::command) {
      missing("model", "the path or id that the engine loads");
    }
    if (const YamlNode* n = member("served_model_name"))
      if (auto v = read_.text(*n, "served_model_name")) {
        if (v->find(',') != std::string::npos || v->starts_with('-'))
          problems_.add(n->mark, "served_model_name must not hold \",\" or begin with \"-\"");
        one_line(*n, "served_model_name", *v);
        spec_.served_model_name = *v;
      }
  }

  void one_line(const YamlNode& node, std::string_view what, std::string_view text) {
    if (std::any_of(text.begin(), text.end(),
                    [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }))
      problems_.add(node.mark, fmt::format("{} must be one line without control characters", what));
  }

  // A list of arguments; one text alone only when it cannot be meant as several.
  std::vector<std::string> arguments(const YamlNode& node, std::string_view what) {
    if (node.kind == YamlNode::Kind::scalar && node.text.find(' ') != std::string::npos) {
      problems_.add(node.mark, fmt::format("{} must be a list, one item an argument, such as "
                                           "[--max-model-len, \"65536\"]",
                                           what));
      return {};
    }
    if (node.kind == YamlNode::Kind::null && node.text.empty()) return {};
    return read_.raw_texts(node, what).value_or(std::vector<std::string>{});
  }

  void command_line() {
    if (const YamlNode* n = member("args")) spec_.args = arguments(*n, "args");
    const YamlNode* n = member("command");
    if (n) {
      spec_.command = arguments(*n, "command");
      if (engine_known_ && spec_.engine != EngineKind::command)
        problems_.add(n->mark, fmt::format("command belongs to engine: command; {} makes its own",
                                           to_string(spec_.engine)));
      else if (spec_.command.empty() || spec_.command[0].empty())
        problems_.add(n->mark, "command must name a program");
    } else if (engine_known_ && spec_.engine == EngineKind::command) {
      missing("command", "the program to start and its arguments, with {port} or {uds}");
    }
    if (const YamlNode* s = member("setup"))
      if (auto v = read_.raw_text(*s, "setup")) spec_.setup = plain_text(*v);
  }

  // Text from a web form: without byte order mark and carriage returns.  C19
  static std::string plain_text(std::string_view text) {
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    std::string out;
    for (size_t i = 0; i < text.size(); ++i)
      if (text[i] != '\r')
        out += text[i];
      else if (i + 1 >= text.size() || text[i + 1] != '\n')
        out += '\n';
    return out;
  }

  void environment() {
    const YamlNode* n = member("env");
    if (!n) return;
    if (n->kind == YamlNode::Kind::null && n->text.empty()) return;
    if (n->kind != YamlNode::Kind::map) {
      problems_.add(n->mark, "env must have members (NAME: value)");
      return;
    }
    for (const auto& [key, value] : n->members) {
      if (!is_env_name(key.text))
        problems_.add(key.mark, fmt::format("env: \"{}\" is no name of a variable (letters, digits "
                                            "and _, not beginning with a digit)",
                                            key.text.substr(0, 60)));
      else if (key.text.starts_with("BERTH_"))
        problems_.add(key.mark, "env: names beginning with BERTH_ are set by Berth");
      if (auto v = read_.raw_text(value, "env." + key.text)) spec_.env[key.text] = *v;
    }
  }

  void slurm(const YamlNode& node) {
    if (node.kind == YamlNode::Kind::null && node.text.empty()) return;
    YamlNode map = spelled(node, kSlurmMembers, problems_);
    if (!read_.members(map, "slurm", kSlurmMembers)) return;
    ResourceSpec& r = spec_.resources;
    for (auto [name, into] :
         {std::pair{"partition", &r.partition}, std::pair{"account", &r.account},
          std::pair{"qos", &r.qos}, std::pair{"reservation", &r.reservation},
          std::pair{"constraint", &r.constraint}, std::pair{"gpu-type", &r.gpu_type}})
      if (const YamlNode* n = map.find(name)) word(*n, name, *into);
    if (const YamlNode* n = map.find("gpus")) gpus(*n);
    if (const YamlNode* n = map.find("nodes"))
      if (auto v = read_.integer(*n, "slurm.nodes", {1, 1024})) {
        if (*v != 1)
          problems_.add(n->mark, "slurm.nodes: replicas over several nodes are not supported yet");
        r.nodes = static_cast<int>(*v);
      }
    if (const YamlNode* n = map.find("cpus-per-task"))
      if (auto v = read_.integer(*n, "slurm.cpus-per-task", {1, 4096}))
        r.cpus_per_task = static_cast<int>(*v);
    if (const YamlNode* n = map.find("mem")) memory(*n);
    if (const YamlNode* n = map.find("time")) time_limit(*n);
    if (const YamlNode* n = map.find("exclude"))
      for (const std::string& v : read_.texts(*n, "slurm.exclude").value_or(Texts{})) {
        if (!is_slurm_word(v))
          problems_.add(n->mark, "slurm.exclude must be node names, without spaces or quotes");
        r.exclude_nodes.push_back(v);
      }
  }

  void word(const YamlNode& node, std::string_view name, std::string& into) {
    std::string what = fmt::format("slurm.{}", name);
    auto v = read_.text(node, what);
    if (!v) return;
    if (!is_slurm_word(*v))
      problems_.add(node.mark, what + " must be one word without spaces or quotes");
    if (name == "account")
      if (Status ok = check_account_name("slurm.account", *v); !ok)
        problems_.add(node.mark, ok.error().message);
    into = *v;
  }

  // "2" or "h100:2".
  void gpus(const YamlNode& node) {
    auto v = read_.text(node, "slurm.gpus");
    if (!v) return;
    std::string count = *v;
    if (size_t colon = v->rfind(':'); colon != std::string::npos) {
      std::string type = v->substr(0, colon);
      count = v->substr(colon + 1);
      if (!is_slurm_word(type) || type.find(':') != std::string::npos)
        problems_.add(node.mark, "slurm.gpus must be a number, or type:number such as h100:2");
      else if (!spec_.resources.gpu_type.empty() && spec_.resources.gpu_type != type)
        problems_.add(node.mark, "slurm.gpus and slurm.gpu-type name two types");
      else
        spec_.resources.gpu_type = type;
    }
    YamlNode number = node;
    number.text = count;
    if (auto n = read_.integer(number, "slurm.gpus", {0, 1024}))
      spec_.resources.gpus = static_cast<int>(*n);
  }

  void time_limit(const YamlNode& node) {
    const std::string& t = node.text;
    bool bare = node.kind == YamlNode::Kind::scalar && !t.empty() &&
                std::all_of(t.begin(), t.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (bare)
      problems_.add(node.mark, fmt::format("slurm.time {0} may mean {0} minutes, as for sbatch, or "
                                           "{0} seconds, as elsewhere here: write {0}m or {0}s",
                                           t.substr(0, 20)));
    else
      spec_.resources.time_limit = read_.duration(node, "slurm.time", minutes(1), hours(24) * 366);
  }

  void memory(const YamlNode& node) {
    auto v = read_.text(node, "slurm.mem");
    if (!v) return;
    auto mib = parse_slurm_mem(*v);
    if (mib && *mib <= (int64_t{1} << 30))
      spec_.resources.mem_mib = *mib;
    else
      problems_.add(node.mark,
                    fmt::format("slurm.mem must be a size such as 96G, 512M or 2T, not \"{}\"",
                                v->substr(0, 60)));
  }

  void access(const YamlNode& node) {
    if (node.kind == YamlNode::Kind::scalar && node.text == "public") {
      spec_.access.scope = AccessSpec::Scope::everybody;
      return;
    }
    if (!read_.members(node, "access", kAccessMembers)) return;
    if (const YamlNode* n = node.find("public"))
      if (read_.boolean(*n, "access.public").value_or(false))
        spec_.access.scope = AccessSpec::Scope::everybody;
    names(node, "project", spec_.access.projects);
    names(node, "user", spec_.access.users);
    names(node, "group", spec_.access.groups);
  }

  void names(const YamlNode& map, const std::string& one, std::vector<std::string>& into) {
    for (const std::string& key : {one, one + "s"}) {
      const YamlNode* n = map.find(key);
      if (!n) continue;
      for (const std::string& v : read_.texts(*n, "access." + key).value_or(Texts{})) {
        if (Status ok = check_account_name(one, v); !ok) problems_.add(n->mark, ok.error().message);
        into.push_back(v);
      }
    }
  }

  void limits() {
    if (const YamlNode* n = member("replicas"))
      if (auto v = read_.integer(*n, "replicas", {0, 1000})) spec_.replicas = static_cast<int>(*v);
    if (const YamlNode* n = member("isolation")) {
      std::vector<std::string> allowed;
      for (Isolation i : kIsolations) allowed.emplace_back(isolation_name(i));
      if (auto v = read_.one_of(*n, "isolation", allowed))
        for (Isolation i : kIsolations)
          if (isolation_name(i) == *v) spec_.isolation = i;
    }
    if (const YamlNode* n = member("load_timeout"))
      if (auto v = read_.duration(*n, "load_timeout", seconds(1), hours(48)))
        spec_.load_timeout = *v;
    if (const YamlNode* n = member("drain_grace"))
      if (auto v = read_.duration(*n, "drain_grace", seconds(0), hours(24))) spec_.drain_grace = *v;
    if (const YamlNode* n = member("log_dir"))
      if (auto v = read_.text(*n, "log_dir")) {
        if (!v->starts_with('/')) problems_.add(n->mark, "log_dir must be an absolute path");
        one_line(*n, "log_dir", *v);
        spec_.log_dir = *v;
      }
    if (const YamlNode* n = member("max_start_attempts"))
      if (auto v = read_.integer(*n, "max_start_attempts", {1, 1000}))
        spec_.max_start_attempts = static_cast<int>(*v);
  }

  // What only shows when all members are known: does the engine go with its isolation, does the
  // command line leave the address to Berth.
  void together() {
    const auto& limit = spec_.resources.time_limit;
    for (const char* name : {"load_timeout", "drain_grace"}) {
      Duration d = *name == 'l' ? spec_.load_timeout : spec_.drain_grace;
      if (member(name) && limit && d >= *limit)
        problems_.add(mark_of(name), fmt::format("{} ({}) must be shorter than slurm.time ({})",
                                                 name, to_human(d), to_human(*limit)));
    }
    if (spec_.engine == EngineKind::tei && spec_.resources.gpus > 1)
      problems_.add(mark_of("slurm"), "tei uses one GPU; ask for more replicas instead");
    bool by_command = spec_.engine == EngineKind::command;
    auto transport = choose_transport(spec_);
    if (!transport) {
      problems_.add(mark_of(member("isolation") ? "isolation"
                            : by_command        ? "command"
                                                : "args"),
                    transport.error().message);
      return;
    }
    Endpoint probe;  // any will do: what is looked for is how the arguments fit it
    probe.transport = *transport;
    probe.path = "/run/engine.sock";
    probe.port = 1;
    if (auto launch = render(spec_, probe); !launch)
      problems_.add(mark_of(by_command ? "command" : "args"), launch.error().message);
  }

  using Texts = std::vector<std::string>;

  Problems& problems_;
  YamlReader read_;
  YamlNode map_;
  ServiceSpec spec_;
  bool engine_known_ = false;
};

}  // namespace

std::string_view isolation_name(Isolation isolation) {
  switch (isolation) {
    case Isolation::automatic:
      return "auto";
    case Isolation::unix_socket:
      return "unix-socket";
    case Isolation::network_namespace:
      return "network-namespace";
    case Isolation::loopback:
      return "loopback";
  }
  return "auto";
}

std::optional<DeclaredService> read_service(const YamlNode& node, const ServiceDefaults& defaults,
                                            Problems& problems) {
  return ServiceReader(defaults, problems).run(node);
}

Result<std::vector<DeclaredService>> parse_service_file(std::string_view text,
                                                        std::string_view file_name,
                                                        const ServiceDefaults& defaults) {
  Problems problems{std::string(file_name)};
  std::vector<YamlNode> documents = parse_yaml(text, problems);
  std::vector<DeclaredService> out;
  std::set<std::string> names;
  auto take = [&](const YamlNode& node) {
    auto service = read_service(node, defaults, problems);
    if (!service) return;
    if (!names.insert(service->spec.name).second)
      problems.add(node.mark,
                   fmt::format("service \"{}\" is declared twice here", service->spec.name));
    out.push_back(std::move(*service));
  };
  for (const YamlNode& document : documents) {
    if (document.kind != YamlNode::Kind::list) {
      take(document);
    } else {
      for (const YamlNode& item : document.items) take(item);
    }
  }
  if (problems.empty() && out.empty()) problems.add({}, "no service in it");
  if (!problems.empty()) return invalid_argument(problems.to_text());
  return out;
}

}  // namespace berth::config
