#include "proto/control.h"

#include <nlohmann/json.hpp>

namespace berth::proto {
namespace {

// Reads members of one document and remembers the first thing that is wrong.
class Reader {
 public:
  static Result<Reader> open(const Json& document, std::string_view what) {
    if (!document.is_object())
      return invalid_argument(std::string(what) + ": must be a JSON object");
    if (!document.contains("v") || document["v"] != 1)
      return invalid_argument(std::string(what) +
                              ": member \"v\" must be 1; agent and daemon are of different "
                              "versions, use the same binary for both");
    return Reader(document, what);
  }

  std::string text(const char* name) {
    return get<std::string>(name, &Json::is_string, "a string");
  }
  std::string text_or_empty(const char* name) { return has(name) ? text(name) : std::string(); }
  int64_t integer(const char* name) {
    return get<int64_t>(name, &Json::is_number_integer, "an integer");
  }
  int64_t integer_or(const char* name, int64_t fallback) {
    return has(name) ? integer(name) : fallback;
  }
  Duration duration_ms(const char* name) { return Duration(integer(name)); }
  std::optional<Duration> ago_ms(const char* name) {
    if (!has(name)) return std::nullopt;
    Duration ago = duration_ms(name);
    if (ago < Duration(0)) fail(name, "must not be negative");
    return ago;
  }
  std::optional<Instant> instant(const char* name) {
    if (!has(name)) return std::nullopt;
    auto t = parse_rfc3339(text(name));
    if (!t) fail(name, "must be a time such as 2026-11-30T19:26:05Z");
    return t;
  }
  template <class Enum>
  Enum one_of(const char* name, std::optional<Enum> (*parse)(std::string_view)) {
    auto value = parse(text(name));
    if (value) return *value;
    fail(name, "has an unknown value");
    return Enum{};
  }
  bool has(const char* name) const {
    return document_->contains(name) && !(*document_)[name].is_null();
  }
  const Json& member(const char* name) const { return (*document_)[name]; }
  void fail(const char* name, std::string_view why) {
    if (error_.empty()) error_ = what_ + ": member \"" + name + "\" " + std::string(why);
  }
  Status done() const {
    if (error_.empty()) return {};
    return invalid_argument(error_);
  }

 private:
  Reader(const Json& document, std::string_view what) : document_(&document), what_(what) {}

  template <class T>
  T get(const char* name, bool (Json::*is)() const noexcept, std::string_view kind) {
    if (has(name) && ((*document_)[name].*is)()) return (*document_)[name].get<T>();
    fail(name, "must be " + std::string(kind));
    return T{};
  }

  const Json* document_;
  std::string what_;
  std::string error_;
};

Json optional_time(const std::optional<Instant>& t) {
  return t ? Json(to_rfc3339(*t)) : Json(nullptr);
}

void put_ago(Json& document, const char* name, const std::optional<Duration>& ago) {
  if (ago) document[name] = ago->count();
}

template <class T>
Result<T> finish(const Reader& reader, T value) {
  if (auto status = reader.done(); !status) return std::move(status).error();
  return value;
}

Result<std::vector<std::string>> string_list(const Json& document, const char* name) {
  std::vector<std::string> out;
  if (!document.contains(name)) return out;
  const Json& list = document[name];
  if (!list.is_array())
    return invalid_argument(std::string("access: member \"") + name + "\" must be a list");
  for (const Json& item : list) {
    if (!item.is_string())
      return invalid_argument(std::string("access: member \"") + name + "\" must hold strings");
    out.push_back(item.get<std::string>());
  }
  return out;
}

}  // namespace

Json to_json(const AccessSpec& a) {
  return {{"public", a.scope == AccessSpec::Scope::everybody},
          {"projects", a.projects},
          {"users", a.users},
          {"groups", a.groups}};
}

Result<AccessSpec> parse_access(const Json& document) {
  AccessSpec a;
  if (!document.is_object()) return invalid_argument("access: must be an object");
  if (document.contains("public")) {
    if (!document["public"].is_boolean())
      return invalid_argument("access: member \"public\" must be true or false");
    if (document["public"].get<bool>()) a.scope = AccessSpec::Scope::everybody;
  }
  auto projects = string_list(document, "projects");
  if (!projects) return std::move(projects).error();
  auto users = string_list(document, "users");
  if (!users) return std::move(users).error();
  auto groups = string_list(document, "groups");
  if (!groups) return std::move(groups).error();
  a.projects = std::move(projects).value();
  a.users = std::move(users).value();
  a.groups = std::move(groups).value();
  return a;
}

Json to_json(const RegisterRequest& m) {
  Json j = {{"v", 1},
            {"service", m.service},
            {"replica_key", m.replica_key},
            {"job_id", m.job_id},
            {"cluster", m.cluster},
            {"restarts", m.restarts},
            {"node", m.node},
            {"address", m.address},
            {"secret", m.secret},
            {"renew", m.renew},
            {"engine", to_string(m.engine)},
            {"access", to_json(m.access)},
            {"stops_at", optional_time(m.stops_at)}};
  put_ago(j, "began_ago_ms", m.began_ago);
  put_ago(j, "engine_ago_ms", m.engine_ago);
  return j;
}

Json to_json(const RegisterReply& m) {
  return {{"v", 1},
          {"lease_id", m.lease_id},
          {"public_name", m.public_name},
          {"ttl_ms", m.ttl.count()},
          {"heartbeat_ms", m.heartbeat.count()}};
}

Json to_json(const HeartbeatRequest& m) {
  Json j = {{"v", 1},
            {"state", to_string(m.state)},
            {"detail", m.detail},
            {"served_model", m.served_model},
            {"in_flight", m.in_flight},
            {"stops_at", optional_time(m.stops_at)}};
  if (m.context_length) j["context_length"] = *m.context_length;
  put_ago(j, "answered_ago_ms", m.answered_ago);
  return j;
}

Json to_json(const HeartbeatReply& m) {
  return {{"v", 1},
          {"directive", m.directive == Directive::drain ? "drain" : "none"},
          {"why", m.why},
          {"ttl_ms", m.ttl.count()},
          {"job_ends_at", optional_time(m.job_ends_at)}};
}

Json to_json(const EndReport& m) {
  Json j = {{"v", 1}, {"cause", to_string(m.cause)}, {"detail", m.detail}};
  if (m.exit_code) j["exit_code"] = *m.exit_code;
  if (m.signal) j["signal"] = *m.signal;
  return j;
}

Result<RegisterRequest> parse_register_request(std::string_view body) {
  auto document = parse_json(body);
  if (!document) return std::move(document).error().wrap("registration");
  auto opened = Reader::open(*document, "registration");
  if (!opened) return std::move(opened).error();
  Reader& r = *opened;
  RegisterRequest m;
  m.service = r.text("service");
  m.replica_key = r.text_or_empty("replica_key");
  int64_t id = r.integer_or("job_id", 0);
  if (id < 0) r.fail("job_id", "must not be negative");
  m.job_id = static_cast<uint64_t>(id);
  m.cluster = r.text_or_empty("cluster");
  m.restarts = static_cast<int>(r.integer_or("restarts", 0));
  m.node = r.text_or_empty("node");
  m.address = r.text("address");
  m.secret = r.text("secret");
  m.renew = r.text("renew");
  if (m.secret.size() < 32) r.fail("secret", "must have at least 32 characters");
  if (m.renew.size() < 32) r.fail("renew", "must have at least 32 characters");
  for (const char* name : {"secret", "renew", "address"})
    for (unsigned char c : r.text_or_empty(name))
      if (c <= 0x20 || c >= 0x7f) {
        r.fail(name, "must be printable ASCII without spaces");
        break;
      }
  m.engine = r.one_of("engine", parse_engine_kind);
  m.stops_at = r.instant("stops_at");
  m.began_ago = r.ago_ms("began_ago_ms");
  m.engine_ago = r.ago_ms("engine_ago_ms");
  if (r.has("access")) {
    auto access = parse_access(r.member("access"));
    if (!access) return std::move(access).error().wrap("registration");
    m.access = std::move(access).value();
  }
  return finish(r, std::move(m));
}

Result<RegisterReply> parse_register_reply(std::string_view body) {
  auto document = parse_json(body);
  if (!document) return std::move(document).error().wrap("answer to a registration");
  auto opened = Reader::open(*document, "answer to a registration");
  if (!opened) return std::move(opened).error();
  Reader& r = *opened;
  RegisterReply m;
  m.lease_id = r.text("lease_id");
  m.public_name = r.text("public_name");
  m.ttl = r.duration_ms("ttl_ms");
  m.heartbeat = r.duration_ms("heartbeat_ms");
  if (m.ttl <= Duration(0)) r.fail("ttl_ms", "must be positive");
  if (m.heartbeat <= Duration(0)) r.fail("heartbeat_ms", "must be positive");
  return finish(r, std::move(m));
}

Result<HeartbeatRequest> parse_heartbeat_request(std::string_view body) {
  auto document = parse_json(body);
  if (!document) return std::move(document).error().wrap("heartbeat");
  auto opened = Reader::open(*document, "heartbeat");
  if (!opened) return std::move(opened).error();
  Reader& r = *opened;
  HeartbeatRequest m;
  m.state = r.one_of("state", parse_lease_state);
  m.detail = r.text_or_empty("detail");
  m.served_model = r.text_or_empty("served_model");
  if (r.has("context_length")) m.context_length = r.integer("context_length");
  m.in_flight = static_cast<int>(r.integer_or("in_flight", 0));
  m.stops_at = r.instant("stops_at");
  m.answered_ago = r.ago_ms("answered_ago_ms");
  return finish(r, std::move(m));
}

Result<HeartbeatReply> parse_heartbeat_reply(std::string_view body) {
  auto document = parse_json(body);
  if (!document) return std::move(document).error().wrap("answer to a heartbeat");
  auto opened = Reader::open(*document, "answer to a heartbeat");
  if (!opened) return std::move(opened).error();
  Reader& r = *opened;
  HeartbeatReply m;
  std::string directive = r.text("directive");
  if (directive == "drain")
    m.directive = Directive::drain;
  else if (directive != "none")
    r.fail("directive", "has an unknown value");
  m.why = r.text_or_empty("why");
  m.ttl = r.duration_ms("ttl_ms");
  m.job_ends_at = r.instant("job_ends_at");
  return finish(r, std::move(m));
}

Result<EndReport> parse_end_report(std::string_view body) {
  auto document = parse_json(body);
  if (!document) return std::move(document).error().wrap("end report");
  auto opened = Reader::open(*document, "end report");
  if (!opened) return std::move(opened).error();
  Reader& r = *opened;
  EndReport m;
  m.cause = r.one_of("cause", parse_end_cause);
  m.detail = r.text_or_empty("detail");
  if (r.has("exit_code")) m.exit_code = static_cast<int>(r.integer("exit_code"));
  if (r.has("signal")) m.signal = static_cast<int>(r.integer("signal"));
  return finish(r, std::move(m));
}

}  // namespace berth::proto
