#include "config/option_table.h"

namespace berth::config {
namespace {

using V = OptionValue;

const std::string& text_of(const V& v) { return std::get<std::string>(v); }
int64_t integer_of(const V& v) { return std::get<int64_t>(v); }
Duration duration_of(const V& v) { return std::get<Duration>(v); }

constexpr int64_t kSecond = 1000, kMinute = 60 * kSecond, kHour = 60 * kMinute, kDay = 24 * kHour;
constexpr int64_t kGiB = int64_t{1} << 30;

std::vector<Option> places() {
  std::vector<Option> out;
  out.push_back({"state_dir", OptionType::path, "",
                 "Database, journal, socket and address files. On a local disk. Empty: "
                 "$STATE_DIRECTORY (systemd), else $XDG_STATE_HOME/berth, else "
                 "~/.local/state/berth.",
                 [](Config& c, const V& v) { c.state_dir = text_of(v); }});
  out.push_back({"shared_dir", OptionType::path, "shared",
                 "Job scripts, the agent's binary and engine logs. Compute nodes must see it "
                 "under the same path; relative to state_dir, which only one machine sees.",
                 [](Config& c, const V& v) { c.shared_dir = text_of(v); }});
  out.push_back({"log_dir", OptionType::text, "{shared_dir}/logs/{owner}",
                 "Where a service's logs go unless it says so itself. {owner}, {home} (the "
                 "owner's), {service} and {shared_dir} are put in. Its owner must be able to "
                 "read it.",
                 [](Config& c, const V& v) { c.log_dir = text_of(v); }});
  out.push_back({"listen", OptionType::address, "127.0.0.1:7270",
                 "Address of the gateway and the API. Port 0: any free one. The address in use "
                 "is printed and written to STATE/address.",
                 [](Config& c, const V& v) { c.listen = text_of(v); }});
  out.push_back({"health_listen", OptionType::address, "127.0.0.1:0",
                 "Address of /health and /metrics, served by a thread of their own. Written to "
                 "STATE/health_address.",
                 [](Config& c, const V& v) { c.health_listen = text_of(v); }});
  out.push_back({"advertise", OptionType::text, "",
                 "How jobs reach the gateway: host:port or a URL. Empty: the address of `listen`.",
                 [](Config& c, const V& v) { c.advertise = text_of(v); }});
  out.push_back({"tls.cert", OptionType::path, "",
                 "PEM file with the certificate chain. Empty: plain HTTP.",
                 [](Config& c, const V& v) { c.tls.cert = text_of(v); }});
  out.back().needs_restart = NeedsRestart::no;
  out.push_back({"tls.key", OptionType::path, "", "PEM file with the certificate's private key.",
                 [](Config& c, const V& v) { c.tls.key = text_of(v); }});
  out.back().needs_restart = NeedsRestart::no;
  return out;
}

std::vector<Option> process() {
  std::vector<Option> out;
  out.push_back({"role",
                 OptionType::choice,
                 "all",
                 "What this process is.",
                 [](Config& c, const V& v) {
                   c.role = text_of(v) == "gateway"      ? Role::gateway
                            : text_of(v) == "controller" ? Role::controller
                                                         : Role::all;
                 },
                 0,
                 0,
                 {"all", "gateway", "controller"}});
  out.push_back({"scheduler",
                 OptionType::choice,
                 "auto",
                 "What runs the jobs. auto: Slurm where its commands answer, else this machine.",
                 [](Config& c, const V& v) {
                   c.scheduler = text_of(v) == "slurm"   ? SchedulerChoice::slurm
                                 : text_of(v) == "local" ? SchedulerChoice::local
                                                         : SchedulerChoice::automatic;
                 },
                 0,
                 0,
                 {"auto", "slurm", "local"}});
  out.push_back({"shards", OptionType::integer, "0",
                 "Threads of the gateway, each with its own event loop. 0: one a core.",
                 [](Config& c, const V& v) { c.shards = integer_of(v); }, 0, 256});
  out.push_back({"log_level",
                 OptionType::choice,
                 "info",
                 "How much the daemon says.",
                 [](Config& c, const V& v) { c.log_level = text_of(v); },
                 0,
                 0,
                 {"debug", "info", "warn", "error"},
                 NeedsRestart::no});
  out.push_back({"allow_root", OptionType::text, "",
                 "Why the daemon runs as root, in words. Empty: it refuses to.",
                 [](Config& c, const V& v) { c.allow_root = text_of(v); }});
  out.push_back({"isolation.allow_loopback",
                 OptionType::boolean,
                 "false",
                 "Whether services may ask for an engine on a loopback port, which every user of "
                 "the node can reach.",
                 [](Config& c, const V& v) { c.allow_loopback = std::get<bool>(v); },
                 0,
                 0,
                 {},
                 NeedsRestart::yes});
  out.push_back({"munge.socket", OptionType::path, "",
                 "Socket of munged, for credentials of agents. Empty: libmunge's default, "
                 "/run/munge/munge.socket.2.",
                 [](Config& c, const V& v) { c.munge_socket = text_of(v); }});
  out.push_back({"static_routes", OptionType::path, "",
                 "JSON file of fixed routes and keys: a gateway with no controller and no state, "
                 "for benchmarks and tests of the data path.",
                 [](Config& c, const V& v) { c.static_routes = text_of(v); }});
  out.back().visibility = Visibility::expert;
  out.push_back({"local.max_jobs", OptionType::integer, "8",
                 "Jobs that the local scheduler runs at once; further ones wait.",
                 [](Config& c, const V& v) { c.local_max_jobs = integer_of(v); }, 1, 1000});
  out.push_back({"node_address.from",
                 OptionType::choice,
                 "scheduler",
                 "Which address of its node a replica registers. scheduler: NodeAddr as Slurm "
                 "knows it; cidr, interface: the one that node_address.cidr or .interface names.",
                 [](Config& c, const V& v) {
                   c.node_address.from = text_of(v) == "cidr"        ? NodeAddressFrom::cidr
                                         : text_of(v) == "interface" ? NodeAddressFrom::interface
                                                                     : NodeAddressFrom::scheduler;
                 },
                 0,
                 0,
                 {"scheduler", "cidr", "interface"},
                 NeedsRestart::yes});
  out.push_back({"node_address.cidr",
                 OptionType::text,
                 "",
                 "Network of the nodes, such as 10.20.0.0/16.",
                 [](Config& c, const V& v) { c.node_address.cidr = text_of(v); },
                 0,
                 0,
                 {},
                 NeedsRestart::yes});
  out.push_back({"node_address.interface",
                 OptionType::text,
                 "",
                 "Network interface of the nodes, such as ib0.",
                 [](Config& c, const V& v) { c.node_address.interface = text_of(v); },
                 0,
                 0,
                 {},
                 NeedsRestart::yes});
  out.push_back(
      {"node_address.names",
       OptionType::texts,
       "[]",
       "Further names of a node, such as {node}-ib; {node} is Slurm's name for it. A "
       "replica may register what these resolve to on Berth's machine, besides NodeAddr.",
       [](Config& c, const V& v) { c.node_address.names = std::get<std::vector<std::string>>(v); },
       0,
       0,
       {},
       NeedsRestart::yes});
  return out;
}

Option time_option(std::string_view name, std::string_view fallback, int64_t least, int64_t most,
                   std::string_view help, void (*set)(Config&, const V&)) {
  Option o{name, OptionType::duration, fallback, help, set, least, most};
  o.visibility = Visibility::expert;
  return o;
}

std::vector<Option> slurm() {
  std::vector<Option> out;
  out.push_back({"slurm.conf", OptionType::path, "",
                 "slurm.conf for Slurm's commands. Empty: SLURM_CONF, else their own default.",
                 [](Config& c, const V& v) { c.slurm.conf = text_of(v); }});
  out.push_back({"slurm.bin_dir", OptionType::path, "",
                 "Folder of sbatch, squeue, sacct, scancel, scontrol. Empty: PATH.",
                 [](Config& c, const V& v) { c.slurm.bin_dir = text_of(v); }});
  out.push_back({"slurm.submit_as",
                 OptionType::choice,
                 "daemon",
                 "Whose jobs declared services are. daemon: the daemon's own user. owner: the "
                 "service's owner, which needs root or the right to submit for others.",
                 [](Config& c, const V& v) {
                   c.slurm.submit_as = text_of(v) == "owner" ? SubmitAs::owner : SubmitAs::daemon;
                 },
                 0,
                 0,
                 {"daemon", "owner"}});
  out.push_back(time_option("slurm.poll_interval", "2s", 200, 5 * kMinute,
                            "Time between two looks at the queue, one squeue each.",
                            [](Config& c, const V& v) { c.slurm.poll_interval = duration_of(v); }));
  out.push_back(time_option("slurm.query_timeout", "20s", 1000, 10 * kMinute,
                            "Deadline of squeue, sacct and scontrol.",
                            [](Config& c, const V& v) { c.slurm.query_timeout = duration_of(v); }));
  out.push_back(
      time_option("slurm.submit_timeout", "30s", 1000, 10 * kMinute,
                  "Deadline of sbatch; after it the outcome is unknown and looked up.",
                  [](Config& c, const V& v) { c.slurm.submit_timeout = duration_of(v); }));
  out.push_back(
      time_option("slurm.cancel_timeout", "20s", 1000, 10 * kMinute,
                  "Deadline of scancel; it is sent again until the job has ended.",
                  [](Config& c, const V& v) { c.slurm.cancel_timeout = duration_of(v); }));
  out.push_back(
      time_option("slurm.extend_by", "0s", 0, kDay,
                  "Time added to a running replica's limit when no successor will be ready at its "
                  "end; needs the right of a Slurm operator. 0: limits are left as they are.",
                  [](Config& c, const V& v) { c.slurm.extend_by = duration_of(v); }));
  return out;
}

std::vector<Option> control() {
  std::vector<Option> out;
  out.push_back(time_option("lease.ttl", "10s", 1000, 10 * kMinute,
                            "How long a replica stays in routing after its last heartbeat.",
                            [](Config& c, const V& v) { c.lease.ttl = duration_of(v); }));
  out.push_back(time_option("lease.heartbeat", "3s", 200, 5 * kMinute,
                            "Time between two heartbeats of an agent; at most half of lease.ttl.",
                            [](Config& c, const V& v) { c.lease.heartbeat = duration_of(v); }));
  out.push_back(time_option("controller.tick", "1s", 50, kMinute,
                            "Longest time between two plans; events bring the next one forward.",
                            [](Config& c, const V& v) { c.controller.tick = duration_of(v); }));
  out.push_back({"controller.max_submits_per_tick",
                 OptionType::integer,
                 "5",
                 "Jobs submitted by one plan at most.",
                 [](Config& c, const V& v) { c.controller.max_submits_per_tick = integer_of(v); },
                 1,
                 1000,
                 {},
                 NeedsRestart::yes,
                 Visibility::expert});
  out.push_back({"controller.max_cancels_per_tick",
                 OptionType::integer,
                 "20",
                 "Jobs cancelled by one plan at most.",
                 [](Config& c, const V& v) { c.controller.max_cancels_per_tick = integer_of(v); },
                 1,
                 1000,
                 {},
                 NeedsRestart::yes,
                 Visibility::expert});
  out.push_back({"controller.max_stop_percent",
                 OptionType::integer,
                 "20",
                 "A plan that would stop more than this share of the healthy replicas, for "
                 "reasons other than a person's wish, stops none and says so.",
                 [](Config& c, const V& v) { c.controller.max_stop_percent = integer_of(v); },
                 1,
                 100,
                 {},
                 NeedsRestart::yes,
                 Visibility::expert});
  out.push_back({"controller.url",
                 OptionType::text,
                 "",
                 "Where a gateway of its own (role: gateway) finds the controller's API.",
                 [](Config& c, const V& v) { c.controller.url = text_of(v); },
                 0,
                 0,
                 {},
                 NeedsRestart::yes,
                 Visibility::expert});
  out.push_back(
      time_option("defaults.load_timeout", "30m", 1000, 2 * kDay,
                  "How long an engine may load unless its service says otherwise.",
                  [](Config& c, const V& v) { c.defaults.load_timeout = duration_of(v); }));
  out.back().visibility = Visibility::common;
  out.push_back(
      time_option("defaults.drain_grace", "120s", 0, kDay,
                  "How long requests in flight may take once a replica drains.",
                  [](Config& c, const V& v) { c.defaults.drain_grace = duration_of(v); }));
  out.back().visibility = Visibility::common;
  out.push_back({"defaults.max_start_attempts", OptionType::integer, "5",
                 "Failed starts in a row after which a service is `failed` until somebody acts.",
                 [](Config& c, const V& v) { c.defaults.max_start_attempts = integer_of(v); }, 1,
                 1000});
  out.push_back(time_option("backoff.first", "5s", 100, kHour,
                            "Wait after the first failed start; doubles with each further one.",
                            [](Config& c, const V& v) { c.backoff.first = duration_of(v); }));
  out.push_back(time_option("backoff.most", "5m", 100, kDay, "Longest wait between two starts.",
                            [](Config& c, const V& v) { c.backoff.most = duration_of(v); }));
  return out;
}

std::vector<Option> gateway() {
  std::vector<Option> out;
  auto limit = [&](std::string_view name, std::string_view fallback, std::string_view help,
                   void (*set)(Config&, const V&)) {
    out.push_back({name, OptionType::bytes, fallback, help, set, 1024, 16 * kGiB});
  };
  limit("gateway.body_limit", "64MiB", "Largest body of an inference request; over it: 413.",
        [](Config& c, const V& v) { c.gateway.body_limit = integer_of(v); });
  limit("gateway.audio_body_limit", "64MiB", "The same for /v1/audio/*.",
        [](Config& c, const V& v) { c.gateway.audio_body_limit = integer_of(v); });
  limit("gateway.api_body_limit", "1MiB", "The same for /berth/v1/*.",
        [](Config& c, const V& v) { c.gateway.api_body_limit = integer_of(v); });
  auto wait = [&](std::string_view name, std::string_view fallback, std::string_view help,
                  void (*set)(Config&, const V&)) {
    out.push_back(time_option(name, fallback, 10, kDay, help, set));
  };
  wait("gateway.timeouts.connect", "3s", "For a connection to a replica.",
       [](Config& c, const V& v) { c.gateway.timeouts.connect = duration_of(v); });
  wait("gateway.timeouts.head", "15s", "For a client to send the whole head of a request.",
       [](Config& c, const V& v) { c.gateway.timeouts.head = duration_of(v); });
  wait("gateway.timeouts.body", "60s", "Between two pieces of a request's body.",
       [](Config& c, const V& v) { c.gateway.timeouts.body = duration_of(v); });
  wait("gateway.timeouts.first_event", "10m", "For a replica's first byte of an answer.",
       [](Config& c, const V& v) { c.gateway.timeouts.first_event = duration_of(v); });
  wait("gateway.timeouts.between_events", "5m", "Between two pieces of an answer.",
       [](Config& c, const V& v) { c.gateway.timeouts.between_events = duration_of(v); });
  wait("gateway.timeouts.write", "60s", "For a client to take bytes that wait for it.",
       [](Config& c, const V& v) { c.gateway.timeouts.write = duration_of(v); });
  wait("gateway.timeouts.idle", "75s", "For a client's next request on an open connection.",
       [](Config& c, const V& v) { c.gateway.timeouts.idle = duration_of(v); });
  out.push_back({"gateway.cors_origins",
                 OptionType::texts,
                 "[]",
                 "Origins whose pages may call the API from a browser. Empty: none.",
                 [](Config& c, const V& v) {
                   c.gateway.cors_origins = std::get<std::vector<std::string>>(v);
                 },
                 0,
                 0,
                 {},
                 NeedsRestart::no});
  out.push_back({"gateway.access_log",
                 OptionType::path,
                 "access.log",
                 "One JSON line a request, without content. Empty: none; \"-\": standard output.",
                 [](Config& c, const V& v) { c.gateway.access_log = text_of(v); },
                 0,
                 0,
                 {},
                 NeedsRestart::no});
  out.push_back({"gateway.half_close",
                 OptionType::choice,
                 "cancel",
                 "What a client means that closes its sending side while it waits. cancel: it has "
                 "left. keep: it still reads.",
                 [](Config& c, const V& v) {
                   c.gateway.half_close =
                       text_of(v) == "keep" ? HalfClose::keep : HalfClose::cancel;
                 },
                 0,
                 0,
                 {"cancel", "keep"},
                 NeedsRestart::no,
                 Visibility::expert});
  wait("gateway.drain", "30s", "After SIGTERM, for requests in flight.",
       [](Config& c, const V& v) { c.gateway.drain = duration_of(v); });
  // A reload applies what each new request looks up; limits and waits do.
  for (Option& o : out) o.needs_restart = NeedsRestart::no;
  return out;
}

std::vector<Option> declare() {
  std::vector<Option> all;
  for (auto group : {places, process, slurm, control, gateway})
    for (Option& o : group()) all.push_back(std::move(o));
  return all;
}

}  // namespace

const std::vector<Option>& options() {
  static const std::vector<Option> all = declare();
  return all;
}

const Option* find_option(std::string_view name) {
  for (const Option& o : options())
    if (o.name == name) return &o;
  return nullptr;
}

}  // namespace berth::config
