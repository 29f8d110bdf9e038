#include "config/engines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace berth::config {
namespace {

constexpr size_t kSocketPathLimit = 107;  // sizeof(sockaddr_un::sun_path) - 1

using Args = std::vector<std::string>;

std::string_view basename(std::string_view path) {
  size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// The value of the last of these flags, given as "--flag value" or "--flag=value".
std::optional<std::string> flag_value(const Args& args,
                                      const std::vector<std::string_view>& flags) {
  std::optional<std::string> found;
  for (size_t i = 0; i < args.size(); ++i) {
    for (std::string_view flag : flags) {
      if (args[i] == flag && i + 1 < args.size()) found = args[i + 1];
      if (args[i].size() > flag.size() && args[i].starts_with(flag) && args[i][flag.size()] == '=')
        found = args[i].substr(flag.size() + 1);
    }
  }
  return found;
}

bool has_flag(const Args& args, const std::vector<std::string_view>& flags) {
  return std::any_of(args.begin(), args.end(), [&](const std::string& arg) {
    return std::any_of(flags.begin(), flags.end(), [&](std::string_view flag) {
      return arg == flag ||
             (arg.size() > flag.size() && arg.starts_with(flag) && arg[flag.size()] == '=');
    });
  });
}

bool names_placeholder(const Args& args, std::string_view placeholder) {
  for (const std::string& arg : args) {
    for (size_t at = arg.find(placeholder); at != std::string::npos;
         at = arg.find(placeholder, at + 1)) {
      bool escaped = at > 0 && arg[at - 1] == '{';
      if (!escaped) return true;
    }
  }
  return false;
}

std::string seconds_text(Duration d) {
  return std::to_string(std::chrono::duration_cast<seconds>(d).count());
}

// What the user wrote of the command line: all of it for `command`, the further arguments else.
Args written_args(const ServiceSpec& spec) {
  Args written;
  if (spec.engine == EngineKind::command) written = spec.command;
  written.insert(written.end(), spec.args.begin(), spec.args.end());
  return written;
}

// The name under which the engine lists the model: what `berth` asks for in its command line.
std::string served_name(const ServiceSpec& spec) {
  return spec.served_model_name.empty() ? spec.name : spec.served_model_name;
}

// The engine's own limit for loading: below ours, so that its message arrives before we stop it,
// and not much below, so that it does not give up on a model that we would have waited for.
Duration engine_ready_limit(Duration load_timeout) {
  Duration margin = std::clamp<Duration>(load_timeout / 10, seconds(2), seconds(300));
  return std::max<Duration>(load_timeout - margin, seconds(1));
}

// The flags of a known engine by which the user would fix where it listens.
struct ListenFlags {
  std::vector<std::string_view> host, port, uds;
};

ListenFlags listen_flags(EngineKind kind) {
  switch (kind) {
    case EngineKind::vllm:
      return {{"--host"}, {"--port"}, {"--uds"}};
    case EngineKind::sglang:
      return {{"--host"}, {"--port"}, {}};
    case EngineKind::llama_server:
      return {{"--host"}, {"--port"}, {}};
    case EngineKind::tei:
      return {{"--hostname"}, {"--port", "-p"}, {}};
    case EngineKind::command:
      break;
  }
  return {};
}

Args listen_args(EngineKind kind, const Endpoint& endpoint) {
  std::string port = std::to_string(endpoint.port);
  bool uds = endpoint.transport == Transport::unix_socket;
  switch (kind) {
    case EngineKind::vllm:
      if (uds) return {"--uds", endpoint.path};
      return {"--host", endpoint.host, "--port", port};
    case EngineKind::llama_server:
      if (uds) return {"--host", endpoint.path};
      return {"--host", endpoint.host, "--port", port};
    case EngineKind::sglang:
      return {"--host", endpoint.host, "--port", port};
    case EngineKind::tei:
      return {"--hostname", endpoint.host, "--port", port};
    case EngineKind::command:
      break;
  }
  return {};
}

// Flags that a known engine should have unless `given` has them already, whoever wrote it.
Args wanted_flags(EngineKind kind, const ServiceSpec& spec, const Endpoint& endpoint,
                  const Args& given) {
  Args out;
  auto add = [&](const std::vector<std::string_view>& names, Args flags) {
    if (!has_flag(given, names)) out.insert(out.end(), flags.begin(), flags.end());
  };
  switch (kind) {
    case EngineKind::vllm:
      add({"--shutdown-timeout"}, {"--shutdown-timeout", seconds_text(spec.drain_grace)});
      break;
    case EngineKind::sglang:
      add({"--enable-metrics"}, {"--enable-metrics"});
      break;
    case EngineKind::llama_server:
      // Short, so that a stream cut by a stop is seen soon, and proxies see that it lives.
      add({"--sse-ping-interval"}, {"--sse-ping-interval", "5"});
      add({"--metrics"}, {"--metrics"});
      break;
    case EngineKind::tei:
      // Its default is one fixed path in /tmp for all users of a node.
      if (!endpoint.scratch_dir.empty())
        add({"--uds-path"}, {"--uds-path", endpoint.scratch_dir + "/tei-backend"});
      break;
    case EngineKind::command:
      break;
  }
  return out;
}

// Parallelism and threads from the job's resources, for declared services.
Args resource_flags(const ServiceSpec& spec) {
  Args out;
  auto add = [&](const std::vector<std::string_view>& names, Args flags) {
    if (!has_flag(spec.args, names)) out.insert(out.end(), flags.begin(), flags.end());
  };
  std::string gpus = std::to_string(spec.resources.gpus);
  switch (spec.engine) {
    case EngineKind::vllm:
      if (spec.resources.gpus > 1)
        add({"--tensor-parallel-size", "-tp", "--pipeline-parallel-size", "-pp",
             "--data-parallel-size", "-dp"},
            {"--tensor-parallel-size", gpus});
      break;
    case EngineKind::sglang:
      if (spec.resources.gpus > 1)
        add({"--tp-size", "--tensor-parallel-size", "--tp", "--pp-size", "--pipeline-parallel-size",
             "--dp-size", "--data-parallel-size"},
            {"--tp-size", gpus});
      break;
    case EngineKind::llama_server:
      if (spec.resources.gpus > 0)
        add({"--n-gpu-layers", "--gpu-layers", "-ngl"}, {"--n-gpu-layers", "999"});
      // It counts the machine's cores, not the job's: too many spinning threads stall it.
      add({"--threads", "-t"}, {"--threads", std::to_string(spec.resources.cpus_per_task)});
      break;
    case EngineKind::tei:
    case EngineKind::command:
      break;
  }
  return out;
}

Args engine_command(const ServiceSpec& spec) {
  std::string name = served_name(spec);
  switch (spec.engine) {
    case EngineKind::vllm:
      return {"vllm", "serve", spec.model, "--served-model-name", name};
    case EngineKind::sglang:
      return {"python3",
              "-m",
              "sglang.launch_server",
              "--model-path",
              spec.model,
              "--served-model-name",
              name};
    case EngineKind::llama_server:
      return {"llama-server", "--model", spec.model, "--alias", name};
    case EngineKind::tei:
      return {"text-embeddings-router", "--model-id", spec.model, "--served-model-name", name};
    case EngineKind::command:
      break;
  }
  return {};
}

void add_env(EngineLaunch& launch, const ServiceSpec& spec, const Endpoint& endpoint) {
  auto add = [&](std::string_view name, std::string value) {
    launch.env.emplace(name, std::move(value));  // what the user set stays
  };
  launch.env = spec.env;
  switch (launch.preset->kind) {
    case EngineKind::vllm:
      // A05: two limits that know each other.
      add("VLLM_ENGINE_READY_TIMEOUT_S", seconds_text(engine_ready_limit(spec.load_timeout)));
      add("VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "75");
      add("VLLM_NO_USAGE_STATS", "1");  // it reports to its makers otherwise
      break;
    case EngineKind::sglang:
      add("SGLANG_TIMEOUT_KEEP_ALIVE", "75");
      break;
    case EngineKind::llama_server:
    case EngineKind::tei:
    case EngineKind::command:
      break;
  }
  if (!endpoint.engine_key.empty() && !launch.preset->key_env.empty())
    add(launch.preset->key_env, endpoint.engine_key);
  if (!endpoint.scratch_dir.empty()) {  // A19
    add("TMPDIR", endpoint.scratch_dir);
    add("RAY_TMPDIR", endpoint.scratch_dir);
  }
  if (endpoint.transport == Transport::unix_socket) {
    add("BERTH_UDS", endpoint.path);
  } else {
    add("BERTH_HOST", endpoint.host);
    add("BERTH_PORT", std::to_string(endpoint.port));
  }
  add("BERTH_MODEL", spec.model);
  add("BERTH_NAME", served_name(spec));
}

Status check_endpoint(const Endpoint& endpoint) {
  if (endpoint.transport == Transport::tcp) {
    if (endpoint.port == 0) return internal_error("engine endpoint without a port");
    return {};
  }
  if (endpoint.path.size() > kSocketPathLimit)  // A19
    return invalid_argument(
        fmt::format("engine socket {}: path too long ({} > {}); choose a shorter scratch directory",
                    endpoint.path, endpoint.path.size(), kSocketPathLimit));
  if (!endpoint.path.starts_with('/') || !endpoint.path.ends_with(".sock"))
    return internal_error("engine socket path \"" + endpoint.path +
                          "\" must be absolute and end in .sock");
  return {};
}

// A user's command line for a known engine: it must let Berth choose where the engine listens.
Status add_listen_args(EngineKind kind, const Endpoint& endpoint, const Args& written, Args& argv) {
  bool placed = names_placeholder(written, "{port}") || names_placeholder(written, "{uds}");
  if (placed) return {};
  if (kind == EngineKind::command)
    return invalid_argument(
        "the command does not say where the engine listens: use {port} (and {host}) or {uds} in "
        "it; Berth puts in a free port or a private socket");
  ListenFlags flags = listen_flags(kind);
  for (const auto& [names, instead] :
       {std::pair{flags.port, "{port}"}, std::pair{flags.uds, "{uds}"},
        std::pair{flags.host, "{host}"}}) {
    if (auto value = flag_value(written, names))
      return invalid_argument(fmt::format(
          "the command fixes where {} listens ({} {}): leave the flag out, or write {} instead of "
          "the value, so that two jobs on a node cannot collide",
          to_string(kind), names.front(), *value, instead));
  }
  Args listen = listen_args(kind, endpoint);
  argv.insert(argv.end(), listen.begin(), listen.end());
  return {};
}

// The ids under which a user's own command line makes the engine list its model.
Args command_model_ids(EngineKind kind, const ServiceSpec& spec, const Args& argv) {
  std::optional<std::string> named;
  switch (kind) {
    case EngineKind::vllm:
    case EngineKind::sglang:
    case EngineKind::tei:
      named = flag_value(argv, {"--served-model-name"});
      break;
    case EngineKind::llama_server:
      named = flag_value(argv, {"--alias", "-a"});
      break;
    case EngineKind::command:
      break;
  }
  if (!named && !spec.served_model_name.empty()) named = spec.served_model_name;
  if (!named) return {};
  return {named->substr(0, named->find(','))};
}

struct Piece {
  std::string_view placeholder;
  std::string value;
  std::string_view problem;  // why it cannot be used with this endpoint
};

}  // namespace

EngineKind detect_engine(const std::vector<std::string>& argv) {
  for (size_t i = 0; i < argv.size(); ++i) {
    std::string_view name = basename(argv[i]);
    std::string_view next = i + 1 < argv.size() ? std::string_view(argv[i + 1]) : "";
    if (name == "vllm" && next == "serve") return EngineKind::vllm;
    if (argv[i] == "-m" && (next == "vllm.entrypoints.openai.api_server")) return EngineKind::vllm;
    if (argv[i] == "-m" && next == "sglang.launch_server") return EngineKind::sglang;
    if (name == "sglang" && next == "serve") return EngineKind::sglang;
    if (name == "llama-server") return EngineKind::llama_server;
    if (name == "text-embeddings-router") return EngineKind::tei;
  }
  return EngineKind::command;
}

Result<Transport> choose_transport(const ServiceSpec& spec) {
  bool by_command = spec.engine == EngineKind::command;
  EngineKind kind = by_command ? detect_engine(spec.command) : spec.engine;
  const Args written = written_args(spec);
  bool wants_uds = names_placeholder(written, "{uds}");
  bool wants_port = names_placeholder(written, "{port}");
  if (wants_uds && wants_port)
    return invalid_argument(
        "the command names both {uds} and {port}: the engine can listen on one");
  bool can_uds =
      kind == EngineKind::command ? wants_uds : preset(kind).knows_unix_socket && !wants_port;
  if (wants_uds && !preset(kind).knows_unix_socket)
    return invalid_argument(
        fmt::format("{} cannot listen on a UNIX socket: use {{port}}", to_string(kind)));
  switch (spec.isolation) {
    case Isolation::automatic:
      return can_uds ? Transport::unix_socket : Transport::tcp;
    case Isolation::unix_socket:
      if (!can_uds)
        return invalid_argument(
            fmt::format("isolation: unix-socket needs an engine that listens on one, and {}",
                        kind == EngineKind::command ? "the command does not name {uds}"
                        : wants_port                ? "the arguments name {port}"
                                                    : std::string(to_string(kind)) + " cannot"));
      return Transport::unix_socket;
    case Isolation::network_namespace:
    case Isolation::loopback:
      if (wants_uds)
        return invalid_argument(
            "the command names {uds}, but the isolation asked for is by network: use {port}, or "
            "isolation: unix-socket");
      return Transport::tcp;
  }
  return internal_error("unknown isolation");
}

Result<std::string> substitute(std::string_view argument, const ServiceSpec& spec,
                               const Endpoint& endpoint) {
  bool uds = endpoint.transport == Transport::unix_socket;
  const Piece pieces[] = {
      {"{uds}", endpoint.path, uds ? "" : "the engine listens on a TCP port here; use {port}"},
      {"{port}", std::to_string(endpoint.port),
       uds ? "the engine listens on a UNIX socket here; use {uds}" : ""},
      {"{host}", endpoint.host, uds ? "the engine listens on a UNIX socket here; use {uds}" : ""},
      {"{model}", spec.model, ""},
      {"{name}", served_name(spec), ""},
  };
  std::string out;
  for (size_t at = 0; at < argument.size();) {
    std::string_view rest = argument.substr(at);
    const Piece* match = nullptr;
    bool escaped = false;
    for (const Piece& piece : pieces) {
      if (rest.starts_with(piece.placeholder)) match = &piece;
      if (rest.starts_with("{") && rest.substr(1).starts_with(piece.placeholder) &&
          rest.substr(1 + piece.placeholder.size()).starts_with("}"))
        match = &piece, escaped = true;
    }
    if (!match) {
      out += rest[0];
      ++at;
    } else if (escaped) {
      out += match->placeholder;
      at += match->placeholder.size() + 2;
    } else if (!match->problem.empty()) {
      return invalid_argument(fmt::format("argument \"{}\" names {}: {}", argument,
                                          match->placeholder, match->problem));
    } else {
      out += match->value;
      at += match->placeholder.size();
    }
  }
  return out;
}

std::vector<std::string> command_line(const ServiceSpec& spec) {
  if (spec.engine == EngineKind::command) return written_args(spec);
  Args argv = engine_command(spec);
  Args parallel = resource_flags(spec);
  argv.insert(argv.end(), parallel.begin(), parallel.end());
  argv.insert(argv.end(), spec.args.begin(), spec.args.end());
  return argv;
}

Result<EngineLaunch> render(const ServiceSpec& spec, const Endpoint& endpoint) {
  if (Status ok = check_endpoint(endpoint); !ok) return ok.error();
  bool by_command = spec.engine == EngineKind::command;
  if (by_command && spec.command.empty())
    return invalid_argument("engine command needs a command line");
  EngineKind kind = by_command ? detect_engine(spec.command) : spec.engine;

  EngineLaunch launch;
  launch.preset = &preset(kind);
  launch.transport = endpoint.transport;
  launch.load_timeout = spec.load_timeout;
  launch.drain_grace = spec.drain_grace;
  if (endpoint.transport == Transport::unix_socket && !launch.preset->knows_unix_socket)
    return invalid_argument(fmt::format("{} cannot listen on a UNIX socket", to_string(kind)));

  const Args written = written_args(spec);
  Args user;
  for (const std::string& arg : written) {
    auto text = substitute(arg, spec, endpoint);
    if (!text) return std::move(text).error();
    user.push_back(std::move(text).value());
  }
  Args argv = by_command ? user : engine_command(spec);
  if (Status ok = add_listen_args(kind, endpoint, written, argv); !ok) return ok.error();
  Args wanted = wanted_flags(kind, spec, endpoint, user);
  argv.insert(argv.end(), wanted.begin(), wanted.end());
  if (by_command) {
    launch.model_ids = command_model_ids(kind, spec, user);
  } else {
    Args parallel = resource_flags(spec);
    argv.insert(argv.end(), parallel.begin(), parallel.end());
    argv.insert(argv.end(), user.begin(), user.end());
    launch.model_ids = {served_name(spec)};
    // TEI's /info names the model, not what it is served as.
    if (kind == EngineKind::tei) launch.model_ids.push_back(spec.model);
  }
  launch.argv = std::move(argv);
  add_env(launch, spec, endpoint);
  return launch;
}

bool try_next_probe(int status) {
  return status == 400 || status == 404 || status == 405 || status == 415 || status == 422 ||
         status == 424 || status == 501;
}

std::string probe_body(const ProbeRequest& probe, std::string_view model_id) {
  std::string body(probe.body);
  size_t at = body.find("{model}");
  if (at != std::string::npos) body.replace(at, 7, dump_json(Json(std::string(model_id))));
  return body;
}

Result<ServedModel> read_models(std::string_view body, const std::vector<std::string>& accepted) {
  auto document = parse_json(body);
  if (!document) {
    Error error = std::move(document).error().wrap("the engine's list of models");
    error.source = Source::engine;
    return error;
  }
  auto context = [](const Json& entry) -> std::optional<int64_t> {
    for (const char* key : {"max_model_len", "max_input_length", "context_length"})
      if (auto it = entry.find(key); it != entry.end() && it->is_number_integer())
        return it->get<int64_t>();
    if (auto meta = entry.find("meta"); meta != entry.end() && meta->is_object())
      for (const char* key : {"n_ctx", "n_ctx_train"})
        if (auto it = meta->find(key); it != meta->end() && it->is_number_integer())
          return it->get<int64_t>();
    return std::nullopt;
  };
  std::vector<ServedModel> found;
  auto take = [&](const Json& entry, const char* key) {
    if (!entry.is_object()) return;
    if (auto it = entry.find(key); it != entry.end() && it->is_string())
      found.push_back({it->get<std::string>(), context(entry)});
  };
  if (document->is_object()) {
    if (auto data = document->find("data"); data != document->end() && data->is_array())
      for (const Json& entry : *data) take(entry, "id");
    take(*document, "model_id");  // TEI's /info
  }
  if (found.empty()) return unavailable("the engine lists no model yet", Source::engine);
  if (accepted.empty()) return found.front();
  for (const ServedModel& model : found)
    if (std::find(accepted.begin(), accepted.end(), model.id) != accepted.end()) return model;
  Args ids;
  for (const ServedModel& model : found) ids.push_back(model.id);
  Error wrong =
      invalid_argument(fmt::format("the engine serves \"{}\", not \"{}\"", fmt::join(ids, "\", \""),
                                   fmt::join(accepted, "\" or \"")));
  wrong.source = Source::engine;
  return wrong;
}

}  // namespace berth::config
