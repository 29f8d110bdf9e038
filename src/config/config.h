// The daemon's configuration as the wiring uses it: one typed value, complete.
//
// How each member is named, read, checked and documented is declared once, in option.cc; this
// struct only holds the result. Defaults here and there agree because the struct is filled from
// the declarations. Paths are absolute once loaded. Threading: a value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"

namespace berth::config {

enum class SchedulerChoice { automatic, slurm, local };
enum class Role { all, gateway, controller };
enum class SubmitAs { daemon, owner };
enum class NodeAddressFrom { scheduler, cidr, interface };
enum class HalfClose { cancel, keep };

struct TlsConfig {
  std::string cert;  // PEM; empty: plain HTTP
  std::string key;
};

struct SlurmConfig {
  std::string conf;     // SLURM_CONF for the commands; empty: their default
  std::string bin_dir;  // empty: PATH
  SubmitAs submit_as = SubmitAs::daemon;
  Duration poll_interval{};
  Duration query_timeout{};
  Duration submit_timeout{};
  Duration cancel_timeout{};
  Duration extend_by{};  // 0: time limits are left as they are
};

struct LeaseConfig {
  Duration ttl{};
  Duration heartbeat{};
};

struct ControllerConfig {
  Duration tick{};
  int64_t max_submits_per_tick = 0;
  int64_t max_cancels_per_tick = 0;
  int64_t max_stop_percent = 0;  // of the healthy replicas, by one plan
  std::string url;               // for role gateway: where the controller's API is
};

struct GatewayTimeouts {
  Duration connect{};         // to a replica
  Duration head{};            // for a client to send a whole request head
  Duration body{};            // between two reads of a request's body
  Duration first_event{};     // for a replica to send its response head
  Duration between_events{};  // between two reads of a response
  Duration write{};           // for a client to take bytes
  Duration idle{};            // of a client's kept-alive connection
};

struct GatewayConfig {
  int64_t body_limit = 0;        // bytes, inference routes
  int64_t audio_body_limit = 0;  // bytes, /v1/audio/*
  int64_t api_body_limit = 0;    // bytes, /berth/v1/*
  GatewayTimeouts timeouts;
  std::vector<std::string> cors_origins;  // empty: no CORS headers
  std::string access_log;                 // empty: none; "-": standard output
  HalfClose half_close = HalfClose::cancel;
  Duration drain{};  // after SIGTERM, for requests in flight
};

struct NodeAddressConfig {
  NodeAddressFrom from = NodeAddressFrom::scheduler;
  std::string cidr;
  std::string interface;
  std::vector<std::string> names;  // "{node}-ib": how nodes are called on that network
};

struct ServiceDefaults {
  Duration load_timeout = minutes(30);
  Duration drain_grace = seconds(120);
  int64_t max_start_attempts = 5;
};

struct BackoffConfig {
  Duration first{};
  Duration most{};
};

struct Config {
  std::string state_dir;
  std::string shared_dir;
  std::string log_dir;  // pattern with {owner} {home} {shared_dir} {service}
  std::string listen;   // host:port
  std::string health_listen;
  std::string advertise;  // how nodes reach the gateway: host:port or URL; empty: from `listen`
  TlsConfig tls;
  int64_t shards = 0;  // 0: one a core
  SchedulerChoice scheduler = SchedulerChoice::automatic;
  Role role = Role::all;
  std::string log_level;
  std::string allow_root;  // why; empty: refuse to run as root
  bool allow_loopback = false;
  std::string static_routes;  // file of fixed routes and keys instead of a controller; see there
  SlurmConfig slurm;
  std::string munge_socket;  // empty: libmunge's default
  int64_t local_max_jobs = 0;
  LeaseConfig lease;
  ControllerConfig controller;
  GatewayConfig gateway;
  NodeAddressConfig node_address;
  ServiceDefaults defaults;
  BackoffConfig backoff;
};

}  // namespace berth::config
