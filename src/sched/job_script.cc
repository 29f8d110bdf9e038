#include "sched/job_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace berth::sched {
namespace {

constexpr std::string_view kPrologue = R"(#!/bin/bash
# {key}: written by Berth. Options are on the scheduler's command line; no #SBATCH counts here.
export BERTH_JOB_BEGAN=${{EPOCHREALTIME:-$(date +%s.%N)}}
berth_signal=
trap 'berth_signal=20' HUP INT TERM
trap 'berth_signal=0' USR1
trap : USR2
berth_fail() {{ printf 'berth: %s\n' "$2" >&2; exit "$1"; }}
unset SRUN_CPUS_PER_TASK SLURM_TRES_PER_TASK
)";

constexpr std::string_view kFindAgent = R"(berth_bin={berth}
[ -x "$berth_bin" ] ||
  berth_fail {missing} "no executable $berth_bin on ${{HOSTNAME:-this node}}; can the node see it?"
)";

constexpr std::string_view kFindSrun =
    R"(berth_srun=$(command -v srun) ||
  berth_fail {missing} "no srun in PATH=$PATH on ${{HOSTNAME:-this node}}"
)";

constexpr std::string_view kSetup = R"(
# The service's setup.
berth_setup_ended() {{
  local status=$?
  berth_fail {failed} "setup failed with status $status${{berth_at:+ at: ${{berth_at:0:200}}}}"
}}
IFS= read -r -d '' berth_setup <<'{end}' || :
{setup}{end}
berth_at=
trap berth_setup_ended EXIT
trap 'berth_at=$BASH_COMMAND' ERR
set -e
eval "$berth_setup"
set +eu
trap - EXIT ERR
trap 'berth_signal=20' HUP INT TERM
trap 'berth_signal=0' USR1
trap : USR2
)";

constexpr std::string_view kEpilogue = R"(
[ -z "$berth_signal" ] || berth_fail "$berth_signal" 'told to stop before the engine was started'
{launch}
exit $?
)";

bool has_nul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

bool is_variable_name(std::string_view name) {
  auto letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; };
  return !name.empty() && name.size() <= 256 && letter(name[0]) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

Status check_variable(std::string_view name, std::string_view value) {
  static constexpr std::array<std::string_view, 9> kOfBash = {
      "BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID", "_", "BASH_COMMAND", "IFS"};
  static constexpr std::array<std::string_view, 7> kPrefixes = {
      "SLURM_", "SBATCH_", "SRUN_", "SALLOC_", "PMI_", "berth_", "BASH_FUNC_"};
  if (!is_variable_name(name))
    return invalid_argument(fmt::format(
        "env: '{}' cannot be the name of a variable; use letters, digits and '_'", name));
  if (std::find(kOfBash.begin(), kOfBash.end(), name) != kOfBash.end())
    return invalid_argument(fmt::format("env: {} belongs to bash and cannot be set", name));
  for (std::string_view prefix : kPrefixes)
    if (name.starts_with(prefix))
      return invalid_argument(
          fmt::format("env: {} cannot be set: {}* belongs to Slurm or to Berth", name, prefix));
  if (has_nul(value))
    return invalid_argument(fmt::format("env: the value of {} has a NUL byte", name));
  return {};
}

// A word that is not a line of the text.
std::string end_marker(std::string_view text) {
  std::string marker = "BERTH_SETUP_ENDS";
  while (text.find(marker) != std::string_view::npos) marker += "_";
  return marker;
}

std::string join_quoted(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += " " + shell_quote(word);
  return line;
}

std::string launch_line(const JobScript& script) {
  std::string line;
  if (script.launcher == JobScript::Launcher::srun)
    line = fmt::format(
        "\"$berth_srun\" --nodes=1 --ntasks=1 --cpus-per-task={} --mpi=none --export=ALL \\\n  ",
        script.cpus);
  line += "\"$berth_bin\" agent" + join_quoted(script.agent_args);
  return line + " \\\n  --" + join_quoted(script.engine_argv) + " </dev/null";
}

Status check_words(const JobScript& script) {
  if (!script.berth.starts_with('/') || has_nul(script.berth))
    return invalid_argument(
        fmt::format("the path of the berth binary must be absolute, and is '{}'", script.berth));
  if (script.cpus < 1)
    return invalid_argument(fmt::format("cpus must be at least 1, and is {}", script.cpus));
  if (script.engine_argv.empty()) return invalid_argument("the engine's command line is empty");
  for (const auto* words : {&script.agent_args, &script.engine_argv})
    if (std::any_of(words->begin(), words->end(), has_nul))
      return invalid_argument("an argument of the engine or the agent has a NUL byte");
  // It stands in a comment.
  bool plain =
      std::all_of(script.key.begin(), script.key.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (!plain) return invalid_argument("the key of a replica has a character that is not plain");
  return {};
}

}  // namespace

std::string shell_quote(std::string_view text) {
  constexpr std::string_view kSafe =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:=@%+,";
  bool control = std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  if (!text.empty() && text.find_first_not_of(kSafe) == std::string_view::npos)
    return std::string(text);
  std::string quoted = control ? "$'" : "'";
  for (char c : text) {
    if (!control)
      quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    else if (c == '\'' || c == '\\')
      quoted += std::string("\\") + c;
    else if (c == '\n')
      quoted += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      quoted += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
    else
      quoted += c;
  }
  return quoted + "'";
}

std::string clean_setup(std::string_view setup) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  std::string clean;
  clean.reserve(setup.size() + 1);
  while (!setup.empty()) {
    if (setup.starts_with(kByteOrderMark)) {
      setup.remove_prefix(kByteOrderMark.size());
    } else if (setup[0] == '\r') {
      clean += '\n';
      setup.remove_prefix(setup.starts_with("\r\n") ? 2 : 1);
    } else {
      clean += setup[0];
      setup.remove_prefix(1);
    }
  }
  if (!clean.empty() && !clean.ends_with('\n')) clean += '\n';
  return clean;
}

Status check_job_environment(const std::map<std::string, std::string>& env,
                             std::string_view setup) {
  for (const auto& [name, value] : env)
    if (Status status = check_variable(name, value); !status) return status;
  if (has_nul(setup)) return invalid_argument("setup has a NUL byte");
  return {};
}

Result<std::string> render_job_script(const JobScript& script) {
  if (Status status = check_words(script); !status) return status.error();
  if (Status status = check_job_environment(script.env, script.setup); !status)
    return status.error();
  bool srun = script.launcher == JobScript::Launcher::srun;
  std::string text = fmt::format(kPrologue, fmt::arg("key", script.key));
  text += fmt::format(kFindAgent, fmt::arg("berth", shell_quote(script.berth)),
                      fmt::arg("missing", kAgentMissing));
  // Looked up before the service's variables, which may have another PATH.
  if (srun) text += fmt::format(kFindSrun, fmt::arg("missing", kAgentMissing));
  if (!script.env.empty()) text += "\n";
  for (const auto& [name, value] : script.env)
    text += fmt::format("export {}={}\n", name, shell_quote(value));
  std::string setup = clean_setup(script.setup);
  if (!setup.empty())
    text += fmt::format(kSetup, fmt::arg("failed", kSetupFailed), fmt::arg("setup", setup),
                        fmt::arg("end", end_marker(setup)));
  text += fmt::format(kEpilogue, fmt::arg("launch", launch_line(script)));
  return text;
}

}  // namespace berth::sched
