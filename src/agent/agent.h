// `berth agent`: runs an engine inside a job and keeps Berth told.
//
// It chooses where the engine listens, isolates it from the node's other users, starts it, opens a
// front on the cluster network that only the gateway may use, registers, waits until the engine
// answers a request as the right model, heartbeats, and ends in order (lifecycle/
// agent_lifecycle.h). Exit statuses: lifecycle/stop_cause.h.
//
// Environment read: BERTH_URL and BERTH_KEY when the options leave them open, SLURM_JOB_ID and its
// kin and BERTH_JOB_BEGAN (hook_job.h). http_proxy and its kin are never used by the agent; the
// engine gets them.
// Nothing secret is in argv, in the engine's environment or in the log.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "model/service.h"

namespace berth::agent {

struct AgentOptions {
  std::string service;      // --service: "name" or "owner/name"; required
  std::string replica_key;  // --replica-key: of a declared replica; "" when self-registered
  std::string join_file;    // --join-file: 0600 file with the one-time join token
  EngineKind engine = EngineKind::command;  // --engine; `command`: seen from the command line
  std::string model;                        // --model: what {model} in the command line stands for
  std::string served_model;  // --served-model-name: what the engine calls it; "": any one model
  Duration load_timeout = minutes(30);         // --load-timeout
  Duration drain_grace = seconds(120);         // --drain-grace
  Isolation isolation = Isolation::automatic;  // --isolation
  // --address-policy: which address the gateway is told to dial.
  //   auto            the node's address in Slurm (NodeAddr) in a job; loopback when Berth itself
  //   is
  //                   on loopback; else the address from which Berth is reached
  //   slurm           NodeAddr, or fail
  //   10.1.2.3        this one (IPv6 as well)
  //   10.0.0.0/8      the one of this node's addresses that is inside
  //   interface:ib0   the address of this interface
  std::string address_policy = "auto";
  // --front-ports, --engine-ports: "20000-20100", where the agent's front (behind a firewall) or a
  // loopback engine may listen; "": any free port
  std::string front_ports;
  std::string engine_ports;
  std::string url;  // --url, BERTH_URL or the login file; "": the variable BERTH_URL
  std::string key;  // never an option: from BERTH_KEY or the login file; "": the variable BERTH_KEY
  std::string ca_file;       // --ca-file: PEM bundle to trust for an https URL; "": the system's
  std::string munge_socket;  // --munge-socket; "": libmunge's default
  std::string workspace_root = "/tmp";   // --workspace-root: node-local, at most 40 characters
  AccessSpec access;                     // --access-*: of a self-registered service
  std::vector<std::string> engine_argv;  // after "--"
};

// Runs until the end; the calling thread becomes the agent's loop. Call it before any thread is
// started: it blocks signals and makes the process a subreaper. Returns the exit status.
int run_agent(const AgentOptions& options);

}  // namespace berth::agent
