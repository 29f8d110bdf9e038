// A service: what a user declared. Values only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace berth {

enum class EngineKind { vllm, sglang, llama_server, tei, command };

std::string_view to_string(EngineKind kind);  // "vllm", "sglang", "llama-server", "tei", "command"
std::optional<EngineKind> parse_engine_kind(std::string_view text);

// Derived from a service's replicas, never stored.
enum class ServiceStatus { ready, degraded, starting, waiting, asleep, failed, stopped };

std::string_view to_string(ServiceStatus status);

// What the replica's job asks Slurm for. Absent members are left to the site's defaults.
struct ResourceSpec {
  std::string partition;
  std::string account;  // who pays: the project
  std::string qos;
  std::string reservation;
  std::string constraint;
  std::string gpu_type;  // "h100"; empty: any
  int gpus = 0;
  int nodes = 1;
  int cpus_per_task = 1;
  std::optional<int64_t> mem_mib;
  std::optional<Duration> time_limit;
  std::vector<std::string> exclude_nodes;

  bool operator==(const ResourceSpec&) const = default;
};

// Who may see and call the service. The owner and the paying project always may.
struct AccessSpec {
  enum class Scope { listed, everybody };
  Scope scope = Scope::listed;
  std::vector<std::string> projects;
  std::vector<std::string> users;
  std::vector<std::string> groups;

  bool operator==(const AccessSpec&) const = default;
};

// How the engine is kept away from other users of its node.
enum class Isolation {
  automatic,  // a UNIX socket where the engine knows one, else a private network namespace
  unix_socket,
  network_namespace,
  loopback,  // a loopback port open to everybody on the node; operators must allow it
};

struct ServiceSpec {
  std::string name;  // as declared, without the owner
  EngineKind engine = EngineKind::command;
  std::string model;              // path or id handed to the engine
  std::vector<std::string> args;  // further engine arguments
  std::vector<std::string>
      command;                    // engine: command; with placeholders {uds} {port} {host} {model}
  std::string served_model_name;  // what the engine calls the model; empty: the service's name
  std::string setup;              // shell text run in the job before the engine
  std::map<std::string, std::string> env;
  ResourceSpec resources;
  int replicas = 1;
  AccessSpec access;
  Isolation isolation = Isolation::automatic;
  Duration load_timeout = minutes(30);  // start of the engine to its first right answer
  Duration drain_grace = seconds(120);  // for requests in flight once a replica drains
  std::string log_dir;                  // empty: the site's default for the owner
  int max_start_attempts = 5;           // consecutive failed starts until the service is `failed`

  bool operator==(const ServiceSpec&) const = default;
};

struct ServiceRecord {
  enum class Wanted { running, stopped, removed };

  std::string owner;        // user name
  std::string project;      // who pays
  std::string public_name;  // unique; see names.h
  ServiceSpec spec;
  uint64_t generation = 1;  // rises with each change of the spec that replicas must follow
  Wanted wanted = Wanted::running;
  Instant created_at{};
  Instant updated_at{};
  Instant resumed_at{};  // failures before this instant no longer count (start, restart, apply)
  uint64_t restart_nonce = 0;  // rises with `berth restart`: replicas of lower ones are replaced

  bool operator==(const ServiceRecord&) const = default;
};

}  // namespace berth
