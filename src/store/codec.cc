#include "store/codec.h"

#include <array>
#include <concepts>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "base/json.h"

namespace berth::store {
namespace {

using namespace std::string_view_literals;

// The words of an enum, by value. Never change or reorder a word: it is on disk.
template <class E>
constexpr auto kWords = std::array<std::string_view, 0>{};

template <>
constexpr auto kWords<EngineKind> =
    std::array{"vllm"sv, "sglang"sv, "llama-server"sv, "tei"sv, "command"sv};
template <>
constexpr auto kWords<AccessSpec::Scope> = std::array{"listed"sv, "everybody"sv};
template <>
constexpr auto kWords<Isolation> =
    std::array{"automatic"sv, "unix_socket"sv, "network_namespace"sv, "loopback"sv};
template <>
constexpr auto kWords<ServiceRecord::Wanted> = std::array{"running"sv, "stopped"sv, "removed"sv};
template <>
constexpr auto kWords<ReplicaState> = std::array{
    "submitted"sv, "pending"sv, "loading"sv, "ready"sv, "unhealthy"sv, "draining"sv, "ended"sv};
template <>
constexpr auto kWords<SubmitState> =
    std::array{"intended"sv, "unknown"sv, "accepted"sv, "refused"sv};
template <>
constexpr auto kWords<EndCause> = std::array{
    "refused"sv,    "failed_to_load"sv, "load_timeout"sv, "crashed"sv,       "launch_failed"sv,
    "time_limit"sv, "preempted"sv,      "node_failed"sv,  "out_of_memory"sv, "cancelled"sv,
    "stopped"sv,    "completed"sv,      "unknown"sv};
template <>
constexpr auto kWords<PendingClass> = std::array{"waiting"sv, "needs_admin"sv, "never"sv};
template <>
constexpr auto kWords<LeaseState> = std::array{"loading"sv, "ready"sv, "unhealthy"sv, "draining"sv};
template <>
constexpr auto kWords<KeyRecord::Role> = std::array{"user"sv, "operator"sv};
template <>
constexpr auto kWords<Code> =
    std::array{"invalid_argument"sv, "unauthenticated"sv, "permission_denied"sv, "not_found"sv,
               "conflict"sv,         "too_large"sv,       "exhausted"sv,         "unavailable"sv,
               "timeout"sv,          "unknown_outcome"sv, "cancelled"sv,         "internal"sv};

// One list of members for both directions. A new member goes in here and has a default.
template <class A>
void fields(A& a, ResourceSpec& r) {
  a("partition", r.partition);
  a("account", r.account);
  a("qos", r.qos);
  a("reservation", r.reservation);
  a("constraint", r.constraint);
  a("gpu_type", r.gpu_type);
  a("gpus", r.gpus);
  a("nodes", r.nodes);
  a("cpus_per_task", r.cpus_per_task);
  a("mem_mib", r.mem_mib);
  a("time_limit_ms", r.time_limit);
  a("exclude_nodes", r.exclude_nodes);
}

template <class A>
void fields(A& a, AccessSpec& r) {
  a("scope", r.scope);
  a("projects", r.projects);
  a("users", r.users);
  a("groups", r.groups);
}

template <class A>
void fields(A& a, ServiceSpec& r) {
  a("name", r.name);
  a("engine", r.engine);
  a("model", r.model);
  a("args", r.args);
  a("command", r.command);
  a("served_model_name", r.served_model_name);
  a("setup", r.setup);
  a("env", r.env);
  a("resources", r.resources);
  a("replicas", r.replicas);
  a("access", r.access);
  a("isolation", r.isolation);
  a("load_timeout_ms", r.load_timeout);
  a("drain_grace_ms", r.drain_grace);
  a("log_dir", r.log_dir);
  a("max_start_attempts", r.max_start_attempts);
}

template <class A>
void fields(A& a, ServiceRecord& r) {
  a("owner", r.owner);
  a("project", r.project);
  a("public_name", r.public_name);
  a("spec", r.spec);
  a("generation", r.generation);
  a("wanted", r.wanted);
  a("created_at", r.created_at);
  a("updated_at", r.updated_at);
  a("resumed_at", r.resumed_at);
  a("restart_nonce", r.restart_nonce);
}

template <class A>
void fields(A& a, JobRef& r) {
  a("id", r.id);
  a("cluster", r.cluster);
  a("submit_time", r.submit_time);
}

template <class A>
void fields(A& a, StartTimes& r) {
  a("began_at", r.began_at);
  a("engine_at", r.engine_at);
  a("answered_at", r.answered_at);
  a("routed_at", r.routed_at);
}

template <class A>
void fields(A& a, StopIntent& r) {
  a("decided_at", r.decided_at);
  a("why", r.why);
  a("drain_asked_at", r.drain_asked_at);
  a("cancel_sent_at", r.cancel_sent_at);
  a("cancel_attempts", r.cancel_attempts);
  a("cause", r.cause);
}

template <class A>
void fields(A& a, AgentEnd& r) {
  a("at", r.at);
  a("cause", r.cause);
  a("detail", r.detail);
  a("exit_code", r.exit_code);
  a("signal", r.signal);
}

template <class A>
void fields(A& a, ReplicaRecord& r) {
  a("key", r.key);
  a("service", r.service);
  a("generation", r.generation);
  a("restart_nonce", r.restart_nonce);
  a("partition", r.partition);
  a("state", r.state);
  a("state_since", r.state_since);
  a("intended_at", r.intended_at);
  a("submit", r.submit);
  a("submit_sent_at", r.submit_sent_at);
  a("submit_attempts", r.submit_attempts);
  a("submit_error", r.submit_error);
  a("refused_code", r.refused_code);
  a("exclude_nodes", r.exclude_nodes);
  a("job", r.job);
  a("restarts", r.restarts);
  a("reason", r.reason);
  a("pending_class", r.pending_class);
  a("reason_since", r.reason_since);
  a("estimated_start", r.estimated_start);
  a("node", r.node);
  a("started_at", r.started_at);
  a("ends_at", r.ends_at);
  a("ready_at", r.ready_at);
  a("start", r.start);
  a("last_seen_at", r.last_seen_at);
  a("lease_id", r.lease_id);
  a("handover_at", r.handover_at);
  a("gap_told_at", r.gap_told_at);
  a("extend_sent_at", r.extend_sent_at);
  a("extensions", r.extensions);
  a("stop", r.stop);
  a("agent_end", r.agent_end);
  a("ended_at", r.ended_at);
  a("end_cause", r.end_cause);
  a("end_detail", r.end_detail);
  a("exit_code", r.exit_code);
  a("signal", r.signal);
}

template <class A>
void fields(A& a, LeaseRecord& r) {
  a("id", r.id);
  a("public_name", r.public_name);
  a("replica_key", r.replica_key);
  a("owner", r.owner);
  a("project", r.project);
  a("access", r.access);
  a("job", r.job);
  a("node", r.node);
  a("address", r.address);
  a("secret", r.secret);
  a("secret_digest", r.secret_digest);
  a("served_model", r.served_model);
  a("engine", r.engine);
  a("context_length", r.context_length);
  a("state", r.state);
  a("detail", r.detail);
  a("registered_at", r.registered_at);
  a("renewed_at", r.renewed_at);
  a("expires_at", r.expires_at);
  a("stops_at", r.stops_at);
  a("start", r.start);
}

template <class A>
void fields(A& a, KeyRecord& r) {
  a("id", r.id);
  a("name", r.name);
  a("digest", r.digest);
  a("user", r.user);
  a("project", r.project);
  a("groups", r.groups);
  a("role", r.role);
  a("created_at", r.created_at);
  a("expires_at", r.expires_at);
  a("revoked_at", r.revoked_at);
}

template <class A>
void fields(A& a, GrantRecord& r) {
  a("name", r.name);
  a("holder", r.holder);
  a("granted_by", r.granted_by);
  a("created_at", r.created_at);
}

class Writer {
 public:
  template <class T>
  void operator()(const char* name, T& value) {
    if constexpr (requires { value.has_value(); }) {
      if (value) out_[name] = make(std::as_const(*value));
    } else {
      out_[name] = make(std::as_const(value));
    }
  }
  Json take() { return std::move(out_); }

 private:
  static Json make(const std::string& v) { return v; }
  static Json make(Instant v) { return to_ms(v); }
  static Json make(Duration v) { return v.count(); }
  static Json make(const std::vector<std::string>& v) { return v; }
  static Json make(const std::map<std::string, std::string>& v) { return v; }
  template <std::integral T>
  static Json make(T v) {
    return v;
  }
  template <class T>
  requires std::is_enum_v<T>
  static Json make(T v) { return std::string(kWords<T>.at(static_cast<size_t>(v))); }
  template <class T>
  requires std::is_class_v<T>
  static Json make(const T& v) {
    Writer inner;
    fields(inner, const_cast<T&>(v));  // fields() serves both directions; a Writer only reads
    return inner.take();
  }

  Json out_ = Json::object();
};

// Throws std::runtime_error or a Json exception; decode() catches both.
class Reader {
 public:
  explicit Reader(const Json& in) : in_(in) {
    if (!in.is_object()) throw std::runtime_error("not an object");
  }
  template <class T>
  void operator()(const char* name, T& value) {
    auto it = in_.find(name);
    if (it == in_.end()) return;
    try {
      if constexpr (requires { value.has_value(); })
        read(*it, value.emplace());
      else
        read(*it, value);
    } catch (const std::exception& e) {
      throw std::runtime_error(std::string(name) + ": " + e.what());
    }
  }

 private:
  static void read(const Json& in, std::string& v) { v = in.get_ref<const std::string&>(); }
  static void read(const Json& in, Instant& v) { v = from_ms(number<int64_t>(in)); }
  static void read(const Json& in, Duration& v) { v = Duration(number<int64_t>(in)); }
  static void read(const Json& in, std::vector<std::string>& v) {
    v = in.get<std::vector<std::string>>();
  }
  static void read(const Json& in, std::map<std::string, std::string>& v) {
    v = in.get<std::map<std::string, std::string>>();
  }
  template <std::integral T>
  static void read(const Json& in, T& v) {
    v = number<T>(in);
  }
  template <class T>
  requires std::is_enum_v<T>
  static void read(const Json& in, T& v) {
    const auto& word = in.get_ref<const std::string&>();
    for (size_t i = 0; i < kWords<T>.size(); ++i)
      if (kWords<T>[i] == word) {
        v = static_cast<T>(i);
        return;
      }
    throw std::runtime_error("unknown word \"" + word + "\"");
  }
  template <class T>
  requires std::is_class_v<T>
  static void read(const Json& in, T& v) {
    Reader inner(in);
    fields(inner, v);
  }
  template <class T>
  static T number(const Json& in) {
    if (!in.is_number_integer()) throw std::runtime_error("not a whole number");
    return in.get<T>();
  }

  const Json& in_;
};

template <class Record>
std::string write(const Record& record) {
  Writer writer;
  fields(writer, const_cast<Record&>(record));  // as above
  Json document = writer.take();
  document["v"] = 1;
  return dump_json(document);
}

}  // namespace

std::string encode(const ServiceRecord& record) { return write(record); }
std::string encode(const ReplicaRecord& record) { return write(record); }
std::string encode(const LeaseRecord& record) { return write(record); }
std::string encode(const KeyRecord& record) { return write(record); }
std::string encode(const GrantRecord& record) { return write(record); }

template <class Record>
Result<Record> decode(std::string_view document) {
  Result<Json> parsed = parse_json(document);
  if (!parsed) return std::move(parsed).error().wrap("stored record");
  try {
    const Json& json = parsed.value();
    if (!json.is_object() || json.value("v", 0) != 1)
      return internal_error("stored record: \"v\" is not 1; was it written by a newer Berth?");
    Record record;
    Reader reader(json);
    fields(reader, record);
    return record;
  } catch (const std::exception& e) {
    return internal_error(std::string("stored record: ") + e.what());
  }
}

template Result<ServiceRecord> decode(std::string_view);
template Result<ReplicaRecord> decode(std::string_view);
template Result<LeaseRecord> decode(std::string_view);
template Result<KeyRecord> decode(std::string_view);
template Result<GrantRecord> decode(std::string_view);

}  // namespace berth::store
