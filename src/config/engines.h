// Engines as data: how each inference server is started, how one sees that it answers as the
// right model, how it stops, what it offers.
//
// `render` turns a ServiceSpec and the place where the engine shall listen into a command line,
// an environment and a probe. It is pure: the agent makes the socket's directory, chooses the
// port, starts the process and sends the probe.
//
// A self-registering agent builds a ServiceSpec with engine `command` and the user's argv. An argv
// that starts a known engine ("vllm serve ...", "python3 -m sglang.launch_server ...",
// "llama-server ...", "text-embeddings-router ...") gets that engine's preset.
//
// Placeholders in `args` and `command`: {uds} {port} {host} {model} {name}. Anything else in
// braces is left alone (JSON arguments); "{{port}}" yields "{port}". The environment is never
// substituted; the engine gets BERTH_PORT, BERTH_HOST or BERTH_UDS, BERTH_MODEL and BERTH_NAME.
//
// Secrets: an engine's key goes into its environment, never into argv.
// Threading: values and constant data; any thread. Errors: invalid_argument naming the member.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "config/engine_presets.h"
#include "model/service.h"

namespace berth::config {

enum class Transport { unix_socket, tcp };

// Where the engine shall listen. The agent fronts it on the cluster network.
struct Endpoint {
  Transport transport = Transport::unix_socket;
  std::string path;                // of the UNIX socket; ends in ".sock", at most 107 bytes
  std::string host = "127.0.0.1";  // for tcp
  uint16_t port = 0;               // for tcp
  std::string scratch_dir;  // 0700 directory of this replica: TMPDIR and the like; may be empty
  std::string engine_key;   // when set and the engine knows one, handed over in its environment
};

// Which known engine an argv starts; `command` when it is none.
EngineKind detect_engine(const std::vector<std::string>& argv);

struct EngineLaunch {
  const EnginePreset* preset = nullptr;  // of the engine that argv really starts
  std::vector<std::string> argv;
  std::map<std::string, std::string> env;  // the spec's and what the preset adds; the spec's wins
  Transport transport = Transport::unix_socket;
  // Ids under which the engine may list the model; empty: any single model is right.
  std::vector<std::string> model_ids;
  Duration load_timeout{};
  Duration drain_grace{};
};

// How the engine of this spec is reached: what `isolation` asks for, or a UNIX socket where engine
// and argv can. An error when isolation and engine do not go together.
Result<Transport> choose_transport(const ServiceSpec& spec);

// The engine's command line of a declared service, as its batch script shows it: without what says
// where the engine listens. The agent in the job takes it as a user's own command line
// (engine `command`) and render() adds the rest there.
std::vector<std::string> command_line(const ServiceSpec& spec);

Result<EngineLaunch> render(const ServiceSpec& spec, const Endpoint& endpoint);

// What an engine lists as its models.
struct ServedModel {
  std::string id;
  std::optional<int64_t> context_length;  // tokens
};

// Reads the body of models_path. unavailable (retry) when no model is listed yet; invalid_argument
// when others are listed but none of `accepted`: the wrong model answers. With `accepted` empty
// the first listed one is taken.
Result<ServedModel> read_models(std::string_view body, const std::vector<std::string>& accepted);

// The body of a probe with the served id put in.
std::string probe_body(const ProbeRequest& probe, std::string_view model_id);
// Whether a probe answered with this status should be followed by the next one in the list.
bool try_next_probe(int status);

// Replaces the known placeholders in one argument. invalid_argument when it names {uds} but the
// endpoint is TCP, or {port} or {host} but it is a UNIX socket.
Result<std::string> substitute(std::string_view argument, const ServiceSpec& spec,
                               const Endpoint& endpoint);

}  // namespace berth::config
