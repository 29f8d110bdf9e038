#include "agent/agent.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "agent/agent_driver.h"
#include "agent/process_tree.h"
#include "base/id.h"
#include "base/log.h"
#include "lifecycle/stop_cause.h"
#include "model/names.h"
#include "runtime/signals.h"

namespace berth::agent {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The spec of which config/engines renders the command line.
ServiceSpec spec_of(const AgentOptions& options) {
  ServiceSpec spec;
  size_t slash = options.service.rfind('/');
  spec.name = slash == std::string::npos ? options.service : options.service.substr(slash + 1);
  spec.engine = EngineKind::command;
  spec.model = options.model;
  spec.command = options.engine_argv;
  spec.served_model_name = options.served_model;
  spec.isolation = options.isolation;
  spec.load_timeout = options.load_timeout;
  spec.drain_grace = options.drain_grace;
  return spec;
}

Status check_launcher(const AgentOptions& options) {
  std::string_view name = options.engine_argv[0];
  name = name.substr(name.rfind('/') + 1);
  if (name != "srun" && name != "mpirun" && name != "mpiexec" && name != "prun") return {};
  return invalid_argument(fmt::format(
      "{} cannot work inside a private network namespace, and what it starts would not be in it: "
      "use an engine that listens on a UNIX socket ({{uds}}), start the engine without {}, or, if "
      "every user of the node may reach the engine, choose --isolation loopback",
      name, name));
}

Status read_options(AgentParts& parts) {
  const AgentOptions& options = parts.options;
  if (options.engine_argv.empty()) return invalid_argument("no engine command after \"--\"");
  if (Status name = check_service_name(options.service); !name)
    return name.error().wrap("--service");
  if (options.load_timeout <= Duration(0))
    return invalid_argument("--load-timeout must be positive");
  if (options.drain_grace < Duration(0))
    return invalid_argument("--drain-grace must not be negative");
  auto front_ports = parse_port_range(options.front_ports);
  if (!front_ports) return front_ports.error().wrap("--front-ports");
  parts.front_ports = *front_ports;
  if (auto engine_ports = parse_port_range(options.engine_ports); !engine_ports)
    return engine_ports.error().wrap("--engine-ports");

  std::string url = options.url.empty() ? variable("BERTH_URL") : options.url;
  auto place = parse_berth_url(url);
  if (!place) return std::move(place).error();
  parts.berth.place = std::move(place).value();
  parts.berth.key = options.key.empty() ? variable("BERTH_KEY") : options.key;
  parts.berth.join_file = options.join_file;
  parts.berth.munge_socket = options.munge_socket;
  parts.berth.use_munge = parts.job.scheduler == JobFacts::Scheduler::slurm;
  if (parts.berth.place.tls) {
    auto context = runtime::TlsContext::client(options.ca_file);
    if (!context) return std::move(context).error();
    parts.berth.tls = *context;
  }
  return {};
}

// Where the engine listens, behind which wall.
Status choose_endpoint(AgentParts& parts, config::Transport transport) {
  const AgentOptions& options = parts.options;
  config::Endpoint& endpoint = parts.endpoint;
  endpoint.transport = transport;
  endpoint.scratch_dir = parts.workspace->scratch();
  if (transport == config::Transport::unix_socket) {
    auto path = parts.workspace->socket_path("engine.sock");
    if (!path) return std::move(path).error();
    endpoint.path = std::move(path).value();
    return {};
  }
  if (parts.space) {
    endpoint.port = kNamespacePort;
    return {};
  }
  auto range = parse_port_range(options.engine_ports);
  auto port = choose_port(endpoint.host, *range);
  if (!port) return std::move(port).error();
  endpoint.port = *port;
  // The port is open to the node's other users; an engine that knows keys keeps them out.
  endpoint.engine_key = random_base62(32);
  log_warn("agent", "isolation loopback: every user of this node can connect to the engine's port");
  return {};
}

Status prepare(AgentParts& parts) {
  if (Status options = read_options(parts); !options) return options;
  ServiceSpec spec = spec_of(parts.options);
  auto transport = config::choose_transport(spec);
  if (!transport) return std::move(transport).error();

  auto witness = Witness::start();
  if (!witness) return std::move(witness).error();
  parts.witness = std::move(witness).value();
  if (*transport == config::Transport::tcp && parts.options.isolation != Isolation::loopback) {
    if (Status launcher = check_launcher(parts.options); !launcher) return launcher;
    auto space = NetNamespace::create();
    if (!space) return std::move(space).error();
    parts.space = std::move(space).value();
  }
  auto workspace = Workspace::create(parts.options.workspace_root);
  if (!workspace) return std::move(workspace).error();
  parts.workspace = std::move(workspace).value();
  if (Status endpoint = choose_endpoint(parts, *transport); !endpoint) return endpoint;

  auto launch = config::render(spec, parts.endpoint);
  if (!launch) return std::move(launch).error();
  parts.launch = std::move(launch).value();
  if (parts.options.engine != EngineKind::command)
    parts.launch.preset = &config::preset(parts.options.engine);
  if (parts.launch.preset->key_env.empty()) parts.endpoint.engine_key.clear();

  auto output = EngineOutput::open(STDOUT_FILENO, STDERR_FILENO);
  if (!output) return std::move(output).error();
  parts.output = std::move(output).value();
  return {};
}

}  // namespace

int run_agent(const AgentOptions& options) {
  runtime::block_signals({SIGTERM, SIGUSR1, SIGINT});
  for (int number : {SIGPIPE, SIGHUP, SIGUSR2}) signal(number, SIG_IGN);
  set_subreaper(Subreaper::yes);
  AgentParts parts;
  parts.options = options;
  parts.job = read_job_environment([](const char* name) { return std::getenv(name); });
  if (Status prepared = prepare(parts); !prepared) {
    log_error("agent", "{}", prepared.error().message);
    return prepared.error().code == Code::invalid_argument ? lifecycle::kExitUsage
                                                           : lifecycle::kExitFault;
  }
  int status;
  {
    runtime::Loop loop;
    runtime::BlockingPool pool(3);
    {
      AgentDriver driver(loop, pool, parts);
      status = loop.run_until(driver.run());
    }
    // It may still watch a descriptor on the loop: gone before the loop is.
    parts.witness.reset();
  }
  return status;
}

}  // namespace berth::agent
