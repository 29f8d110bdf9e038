#include "cli/commands.h"

#include <fmt/format.h>

#include <set>

#include "base/nearest.h"
#include "cli/call.h"
#include "cli/cmd_chat.h"
#include "cli/cmd_config.h"
#include "cli/cmd_doctor.h"
#include "cli/cmd_inspect.h"
#include "cli/cmd_key.h"
#include "cli/cmd_login.h"
#include "cli/cmd_service.h"
#include "cli/cmd_wait.h"
#include "cli/command_help.h"
#include "cli/completion.h"

namespace berth::cli {
namespace {

using Count = Positional::Count;

std::map<std::string, Role, std::less<>>& roles() {
  static std::map<std::string, Role, std::less<>> all;
  return all;
}

int run_role(std::string_view name, Context& context, const Arguments& arguments) {
  auto it = roles().find(name);
  if (it == roles().end()) return fail(context, fmt::format("{} is not in this program", name));
  return it->second(context, arguments);
}

int run_serve(Context& c, const Arguments& a) { return run_role("serve", c, a); }
int run_agent(Context& c, const Arguments& a) { return run_role("agent", c, a); }
int run_shim(Context& c, const Arguments& a) { return run_role("shim", c, a); }

int run_version(Context& context, const Arguments&) {
  context.out(fmt::format("berth {}\n", version()));
  return exit_ok;
}

int run_completion(Context& context, const Arguments& arguments) {
  context.out(arguments.positional(0) == "zsh" ? zsh_completion(commands())
                                               : bash_completion(commands()));
  return exit_ok;
}

const Positional kService{"NAME", Count::one, Completes::services};
const Option kJson{"--json", 0, "", "print the API's document as it came"};
const Option kFile{
    "--file", 'f', "FILE", "service file, or - for standard input", Repeat::many, Completes::files};
const Option kWait{"--wait", 0, "", "then wait until it is so"};
const Option kReplica{"--replica", 0, "KEY", "of this replica instead of the newest"};
const Option kPayer{"--project", 0, "NAME", "who pays, unless the account is named"};

std::vector<Option> joined(std::initializer_list<std::vector<Option>> lists) {
  std::vector<Option> out;
  for (const auto& list : lists) out.insert(out.end(), list.begin(), list.end());
  return out;
}

// What `berth deploy` and `berth agent` say of an engine in the same words.
std::vector<Option> engine_options() {
  return {
      {"--engine",
       0,
       "KIND",
       "inference server",
       Repeat::once,
       Completes::choices,
       {"vllm", "sglang", "llama-server", "tei", "command"}},
      {"--model", 0, "PATH", "model, and what {model} stands for", Repeat::once, Completes::files},
      {"--served-model-name", 0, "NAME", "what the engine calls the model"},
      {"--isolation",
       0,
       "KIND",
       "how the engine listens",
       Repeat::once,
       Completes::choices,
       {"auto", "unix-socket", "network-namespace", "loopback"}},
      {"--load-timeout", 0, "TIME", "for the engine to get ready (30m)"},
      {"--drain-grace", 0, "TIME", "for requests in flight (120s)"},
      {"--access-public", 0, "", "everybody with a key may use it"},
      {"--access-project", 0, "NAME", "may use it", Repeat::many},
      {"--access-user", 0, "NAME", "may use it", Repeat::many},
      {"--access-group", 0, "NAME", "may use it", Repeat::many},
  };
}

std::vector<Command> declaring() {
  std::vector<Command> out;
  out.push_back({"apply",
                 "declare the services of a file; their jobs follow",
                 {},
                 {kFile, kPayer, kWait, kJson},
                 Rest::none,
                 "",
                 {"berth apply -f service.yaml --wait"},
                 run_apply});
  out.push_back({"plan",
                 "show what `berth apply` would do, and do nothing",
                 {},
                 {kFile, kPayer, kJson},
                 Rest::none,
                 "",
                 {"berth plan -f service.yaml"},
                 run_plan});
  std::vector<Option> job = {
      {"--replicas", 0, "N", "how many jobs"},
      {"--partition", 0, "NAME", "as sbatch's"},
      {"--account", 0, "NAME", "as sbatch's: who pays"},
      kPayer,
      {"--qos", 0, "NAME", "as sbatch's"},
      {"--gpus", 0, "N", "a number, or type:number"},
      {"--cpus-per-task", 0, "N", "as sbatch's"},
      {"--mem", 0, "SIZE", "as sbatch's: 96G"},
      {"--time", 0, "TIME", "8h, 30m or 8:00:00; no bare number"},
      {"--constraint", 0, "LIST", "as sbatch's"},
      {"--reservation", 0, "NAME", "as sbatch's"},
      {"--env", 0, "NAME=VALUE", "for setup and engine", Repeat::many},
      {"--setup", 0, "FILE", "shell text to run before the engine", Repeat::once, Completes::files},
      {"--log-dir", 0, "DIR", "where its logs go", Repeat::once, Completes::folders},
      {"--plan", 0, "", "only show what would happen"},
      kWait,
      kJson};
  out.push_back({"deploy",
                 "declare one service without a file",
                 {{"NAME", Count::one, Completes::nothing}},
                 joined({engine_options(), std::move(job)}),
                 Rest::allowed,
                 "ARGUMENT...",
                 {"berth deploy qwen --engine vllm --model /models/Qwen3 --gpus 1 --time 8h",
                  "berth deploy mine --gpus 1 -- ./serve --port {port}"},
                 run_deploy});
  return out;
}

std::vector<Command> looking() {
  std::vector<Command> out;
  out.push_back({"ps",
                 "list services and their jobs",
                 {{"NAME", Count::optional, Completes::services}},
                 {{"--all", 'a', "", "jobs that have ended, too"},
                  {"--names", 0, "", "only the names, one a line"},
                  kJson},
                 Rest::none,
                 "",
                 {"berth ps", "berth ps qwen --all"},
                 run_ps});
  out.push_back({"explain",
                 "say why a service is as it is, and what comes next",
                 {kService},
                 {{"--script", 0, "", "show the batch script of a job"}, kReplica, kJson},
                 Rest::none,
                 "",
                 {"berth explain qwen", "berth explain qwen --script"},
                 run_explain});
  out.push_back({"events",
                 "show what happened to a service, and why",
                 {kService},
                 {{"--tail", 'n', "LINES", "only the last ones (default 50, at most 1000)"}, kJson},
                 Rest::none,
                 "",
                 {"berth events qwen"},
                 run_events});
  out.push_back({"logs",
                 "show what a service's newest job wrote",
                 {kService},
                 {{"--follow", 'f', "", "go on as more is written"},
                  {"--tail", 'n', "LINES", "only the last lines"},
                  kReplica,
                  kJson},
                 Rest::none,
                 "",
                 {"berth logs qwen -f"},
                 run_logs});
  out.push_back({"wait",
                 "wait until a service is ready, stopped or gone",
                 {kService},
                 {{"--for",
                   0,
                   "STATE",
                   "what to wait for",
                   Repeat::once,
                   Completes::choices,
                   {"ready", "stopped", "gone"}},
                  {"--timeout", 0, "TIME", "give up after, such as 10m"},
                  kJson},
                 Rest::none,
                 "",
                 {"berth wait qwen --timeout 30m"},
                 run_wait});
  out.push_back({"doctor",
                 "say what is wrong on this site",
                 {},
                 {kJson},
                 Rest::none,
                 "",
                 {"berth doctor"},
                 run_doctor});
  return out;
}

std::vector<Command> acting() {
  std::vector<Command> out;
  std::vector<Option> options = {kWait, kJson};
  out.push_back({"start",
                 "start a stopped or failed service again",
                 {kService},
                 options,
                 Rest::none,
                 "",
                 {"berth start qwen --wait"},
                 run_start});
  out.push_back({"stop",
                 "stop a service; it stays declared",
                 {kService},
                 options,
                 Rest::none,
                 "",
                 {"berth stop qwen"},
                 run_stop});
  out.push_back({"restart",
                 "replace a service's jobs by new ones",
                 {kService},
                 options,
                 Rest::none,
                 "",
                 {"berth restart qwen"},
                 run_restart});
  out.push_back({"scale",
                 "set how many replicas a service has",
                 {kService, {"REPLICAS", Count::one}},
                 options,
                 Rest::none,
                 "",
                 {"berth scale qwen 3"},
                 run_scale});
  out.push_back({"rm",
                 "stop a service and forget it",
                 {kService},
                 {kWait, kJson},
                 Rest::none,
                 "",
                 {"berth rm qwen --wait"},
                 run_rm});
  out.push_back({"chat",
                 "talk to a model",
                 {kService, {"PROMPT", Count::optional}},
                 {{"--system", 0, "TEXT", "the system prompt"},
                  {"--max-tokens", 0, "N", "length of an answer at most"}},
                 Rest::none,
                 "",
                 {"berth chat qwen", "berth chat qwen 'Say hello'"},
                 run_chat});
  return out;
}

std::vector<Command> credentials() {
  std::vector<Command> out;
  out.push_back({"login",
                 "keep an address and a key for this user",
                 {{"URL", Count::optional}},
                 {{"--key-file", 0, "FILE", "where the key is", Repeat::once, Completes::files}},
                 Rest::none,
                 "",
                 {"berth login https://berth.example.org"},
                 run_login});
  out.push_back({"key create",
                 "make an API key and print it, this once",
                 {{"NAME", Count::one}},
                 {{"--user", 0, "NAME", "whose key it is"},
                  {"--project", 0, "NAME", "who pays for its requests"},
                  {"--group", 0, "NAME", "of the user, for access lists", Repeat::many},
                  {"--role",
                   0,
                   "ROLE",
                   "what it may do",
                   Repeat::once,
                   Completes::choices,
                   {"user", "operator"}},
                  {"--expires", 0, "TIME", "such as 90d, or a date and time"},
                  kJson},
                 Rest::none,
                 "",
                 {"export BERTH_KEY=$(berth key create laptop --expires 90d)"},
                 run_key_create});
  out.back().group = "make, list and revoke API keys";
  out.push_back({"key list", "list keys", {}, {kJson}, Rest::none, "", {}, run_key_list});
  out.push_back({"key revoke",
                 "revoke a key",
                 {{"ID", Count::one}},
                 {kJson},
                 Rest::none,
                 "",
                 {"berth key revoke k_0a1b2c3d"},
                 run_key_revoke});
  out.push_back({"grant add",
                 "let an owner use a bare name",
                 {{"NAME", Count::one}, {"HOLDER", Count::one}},
                 {kJson},
                 Rest::none,
                 "",
                 {"berth grant add qwen3-coder-30b alice", "berth grant add bge-m3 project:gaia"},
                 run_grant_add});
  out.back().group = "let an owner use a bare name; list, remove";
  out.push_back({"grant list", "list grants", {}, {kJson}, Rest::none, "", {}, run_grant_list});
  out.push_back({"grant rm",
                 "remove a grant",
                 {{"NAME", Count::one}},
                 {kJson},
                 Rest::none,
                 "",
                 {},
                 run_grant_rm});
  return out;
}

std::vector<Option> agent_options() {
  std::vector<Option> own = {
      {"--address-policy", 0, "POLICY", "auto, slurm, an address, a network, interface:NAME"},
      {"--front-ports", 0, "FROM-TO", "where the gateway reaches the agent"},
      {"--engine-ports", 0, "FROM-TO", "where a loopback engine listens"},
      {"--ca-file", 0, "FILE", "authorities for https", Repeat::once, Completes::files},
      {"--munge-socket", 0, "PATH", "of MUNGE", Repeat::once, Completes::files},
      {"--workspace-root", 0, "DIR", "node-local, short (/tmp)", Repeat::once, Completes::folders},
      {"--replica-key", 0, "KEY", "of a declared replica"},
      {"--join-file", 0, "FILE", "of a declared replica", Repeat::once, Completes::files},
  };
  return joined({{{"--service", 0, "NAME", "name to be called by; required"},
                  {"--url", 0, "URL", "where Berth is (BERTH_URL)"}},
                 engine_options(),
                 std::move(own)});
}

std::vector<Command> running() {
  std::vector<Command> out;
  std::vector<Option> serve = config_options();
  out.push_back({"serve",
                 "run gateway and controller",
                 {},
                 serve,
                 Rest::none,
                 "",
                 {"berth serve --config /etc/berth/berth.yaml"},
                 run_serve});
  out.push_back({"agent",
                 "start an engine inside a job and register it",
                 {},
                 agent_options(),
                 Rest::required,
                 "COMMAND...",
                 {"srun berth agent --service qwen -- vllm serve /models/Qwen3 --uds {uds}"},
                 run_agent});
  std::vector<Option> show = config_options();
  show.push_back(kJson);
  out.push_back({"config check",
                 "check a configuration file, all of it at once",
                 {{"FILE", Count::one, Completes::files}},
                 {},
                 Rest::none,
                 "",
                 {"berth config check /etc/berth/berth.yaml"},
                 run_config_check});
  out.back().group = "check and show the daemon's configuration";
  out.push_back({"config show",
                 "show the values in effect and where each comes from",
                 {},
                 show,
                 Rest::none,
                 "",
                 {"berth config show -c berth.yaml"},
                 run_config_show});
  out.push_back({"completion",
                 "print the completion for a shell",
                 {{"SHELL", Count::one, Completes::choices, {"bash", "zsh"}}},
                 {},
                 Rest::none,
                 "",
                 {"source <(berth completion bash)"},
                 run_completion});
  out.push_back({"version", "print the version", {}, {}, Rest::none, "", {}, run_version});
  out.push_back({"shim",
                 "keep a local job",
                 {{"DIR", Count::one}},
                 {},
                 Rest::none,
                 "",
                 {},
                 run_shim,
                 Shown::no});
  return out;
}

Error unknown_command(const std::string& word) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const Command& c : commands()) {
    std::string first(c.name.substr(0, c.name.find(' ')));
    if (c.shown == Shown::yes && seen.insert(first).second) names.push_back(first);
  }
  return invalid_argument(fmt::format("unknown command \"{}\"{}; `berth --help` lists them", word,
                                      did_you_mean(word, names)));
}

// Rules that the parser does not know.
Status check_more(const Command& command, const Arguments& arguments) {
  auto needs = [&](const char* option) -> Status {
    if (arguments.has(option)) return {};
    return invalid_argument(fmt::format("{}: {} is missing; see `berth {} --help`", command.name,
                                        option, command.name));
  };
  if (command.name == "apply" || command.name == "plan") return needs("--file");
  if (command.name == "agent") return needs("--service");
  return {};
}

}  // namespace

std::string_view version() { return BERTH_VERSION; }

void set_role(std::string_view name, Role role) { roles()[std::string(name)] = std::move(role); }

const std::vector<Command>& commands() {
  static const std::vector<Command> all = [] {
    std::vector<Command> out;
    for (auto group : {declaring, looking, acting, credentials, running})
      for (Command& c : group()) out.push_back(std::move(c));
    return out;
  }();
  return all;
}

int run_command(const std::vector<std::string>& words, Context& context) {
  if (words.empty()) {
    context.err(overview(commands(), version()));
    return exit_usage;
  }
  if (words[0] == "help" && words.size() > 1) {
    std::vector<std::string> asked(words.begin() + 1, words.end());
    asked.push_back("--help");
    return run_command(asked, context);
  }
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    context.out(overview(commands(), version()));
    return exit_ok;
  }
  if (words[0] == "--version") return run_version(context, {});
  size_t taken = 0;
  const Command* command = find_command(commands(), words, taken);
  if (!command) {
    std::string group = group_help(commands(), words[0]);
    if (group.empty()) return fail(context, unknown_command(words[0]).message, exit_usage);
    bool asked = words.size() > 1 && (words[1] == "--help" || words[1] == "-h");
    (asked ? context.out : context.err)(group);
    return asked ? exit_ok : exit_usage;
  }
  std::vector<std::string> rest(words.begin() + static_cast<std::ptrdiff_t>(taken), words.end());
  auto arguments = parse_arguments(*command, rest);
  if (!arguments) return fail(context, arguments.error().message, exit_usage);
  if (arguments->has("--help")) {
    context.out(command_help(*command));
    return exit_ok;
  }
  if (Status ok = check_more(*command, *arguments); !ok)
    return fail(context, ok.error().message, exit_usage);
  return command->run(context, *arguments);
}

}  // namespace berth::cli
