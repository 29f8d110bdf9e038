#include "app/wire_agent.h"

namespace berth::app {
namespace {

std::optional<Isolation> parse_isolation(const std::string& text) {
  if (text == "auto") return Isolation::automatic;
  if (text == "unix-socket") return Isolation::unix_socket;
  if (text == "network-namespace") return Isolation::network_namespace;
  if (text == "loopback") return Isolation::loopback;
  return std::nullopt;
}

Status read_duration(const cli::Arguments& arguments, std::string_view option, Duration& into) {
  if (!arguments.has(option)) return {};
  auto d = parse_duration(arguments.value(option));
  if (!d)
    return invalid_argument(std::string(option) + " \"" + arguments.value(option) +
                            "\" is no time; write 90s, 30m, 2h or 1:30:00");
  into = *d;
  return {};
}

void read_text(const cli::Arguments& arguments, std::string_view option, std::string& into) {
  if (arguments.has(option)) into = arguments.value(option);
}

}  // namespace

Result<agent::AgentOptions> agent_options(const cli::Arguments& arguments) {
  agent::AgentOptions o;
  read_text(arguments, "--service", o.service);
  if (o.service.empty()) return invalid_argument("--service NAME is missing");
  read_text(arguments, "--replica-key", o.replica_key);
  read_text(arguments, "--join-file", o.join_file);
  if (arguments.has("--engine")) {
    auto kind = parse_engine_kind(arguments.value("--engine"));
    if (!kind)
      return invalid_argument("--engine \"" + arguments.value("--engine") + "\" is not known");
    o.engine = *kind;
  }
  read_text(arguments, "--model", o.model);
  read_text(arguments, "--served-model-name", o.served_model);
  if (auto s = read_duration(arguments, "--load-timeout", o.load_timeout); !s) return s.error();
  if (auto s = read_duration(arguments, "--drain-grace", o.drain_grace); !s) return s.error();
  if (arguments.has("--isolation")) {
    auto isolation = parse_isolation(arguments.value("--isolation"));
    if (!isolation)
      return invalid_argument("--isolation \"" + arguments.value("--isolation") +
                              "\" must be auto, unix-socket, network-namespace or loopback");
    o.isolation = *isolation;
  }
  read_text(arguments, "--address-policy", o.address_policy);
  read_text(arguments, "--front-ports", o.front_ports);
  read_text(arguments, "--engine-ports", o.engine_ports);
  read_text(arguments, "--url", o.url);
  read_text(arguments, "--ca-file", o.ca_file);
  read_text(arguments, "--munge-socket", o.munge_socket);
  read_text(arguments, "--workspace-root", o.workspace_root);
  if (arguments.has("--access-public")) o.access.scope = AccessSpec::Scope::everybody;
  o.access.projects = arguments.values("--access-project");
  o.access.users = arguments.values("--access-user");
  o.access.groups = arguments.values("--access-group");
  o.engine_argv = arguments.rest;
  if (o.engine_argv.empty())
    return invalid_argument(
        "no engine command: write it after \"--\", as in berth agent "
        "--service NAME -- vllm serve MODEL");
  return o;
}

}  // namespace berth::app
