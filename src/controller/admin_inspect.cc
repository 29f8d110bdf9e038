#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "controller/admin.h"

namespace berth::controller {
namespace {

std::optional<int64_t> query_number(const ApiCall& call, const char* name, int64_t fallback,
                                    int64_t max) {
  auto it = call.query.find(name);
  if (it == call.query.end()) return fallback;
  int64_t n = 0;
  const std::string& text = it->second;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < 0) return std::nullopt;
  return std::min(n, max);
}

using Events = Result<std::vector<store::EventRecord>>;

// The store is read on the pool: a slow disk holds up nobody but who asks.
runtime::Task<Events> read_events(ApiContext& context, std::string service, int limit) {
  store::Store* store = &context.store;
  auto read = [store, service, limit] { return store->events(service, limit); };
  co_return co_await context.pool.run(read);
}

// The replica that ?replica=KEY names, else the newest of the service, ended ones included.
runtime::Task<Result<ReplicaRecord>> choose_replica(ApiContext& context, std::string service,
                                                    std::optional<std::string> wanted) {
  store::Store* store = &context.store;
  auto read = [store, service] { return store->history(service, 100); };
  auto history = co_await context.pool.run(read);
  if (!history) co_return std::move(history).error();
  for (const ReplicaRecord& r : *history)
    if (!wanted || *wanted == r.key) co_return r;
  if (wanted) co_return not_found("service \"" + service + "\" has no replica \"" + *wanted + "\"");
  co_return not_found("service \"" + service + "\" has had no replica yet");
}

std::optional<std::string> wanted_replica(const ApiCall& call) {
  auto it = call.query.find("replica");
  return it == call.query.end() ? std::nullopt : std::optional(it->second);
}

struct Piece {
  std::string text;
  int64_t next_offset = 0;
};

Result<Piece> read_piece(const std::string& path, int64_t offset, int64_t limit) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) {
    if (errno == ENOENT) return Piece{"", 0};  // the job has not started yet
    return system_error("open the log " + path, errno);
  }
  Piece piece;
  piece.text.resize(static_cast<size_t>(limit));
  ssize_t n = ::pread(fd, piece.text.data(), piece.text.size(), offset);
  int saved = errno;
  ::close(fd);
  if (n < 0) return system_error("read the log " + path, saved);
  piece.text.resize(static_cast<size_t>(n));
  piece.next_offset = offset + n;
  return piece;
}

// The newest replica of a service, if it ended without a word from its agent: then only the job's
// output tells why (its setup failed, the agent could not make its workspace, ...).
const ReplicaRecord* newest_that_ended_silently(const State& state, const std::string& service) {
  const ReplicaRecord* newest = nullptr;
  for (const auto& [key, r] : state.snapshot().replicas)
    if (r.service == service && (!newest || r.intended_at > newest->intended_at)) newest = &r;
  bool silent = newest && newest->state == ReplicaState::ended && !newest->agent_end &&
                !newest->stop && newest->job.id != 0;
  return silent ? newest : nullptr;
}

// The last lines of a log, none of them empty.
std::vector<std::string> last_lines(const std::string& path, size_t count) {
  constexpr int64_t kBytes = 4096;
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  auto piece = read_piece(path, std::max<int64_t>(0, info.st_size - kBytes), kBytes);
  if (!piece) return {};
  std::vector<std::string> lines;
  std::istringstream text(piece->text);
  for (std::string line; std::getline(text, line);)
    if (!line.empty()) lines.push_back(line);
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - static_cast<ptrdiff_t>(count));
  return lines;
}

std::string_view level_text(sched::Finding::Level level) {
  switch (level) {
    case sched::Finding::Level::ok:
      return "ok";
    case sched::Finding::Level::warning:
      return "warning";
    case sched::Finding::Level::problem:
      return "problem";
  }
  return "problem";
}

// Line by line what there is to say of a service that registered itself.
Json explained(const SelfRegistered& service) {
  Json lines = Json::array();
  for (const LeaseRecord& lease : service.leases) {
    std::string line = "job " + std::to_string(lease.job.id) + " on " + lease.node + ": " +
                       std::string(to_string(lease.state));
    if (!lease.detail.empty()) line += ": " + lease.detail.substr(0, lease.detail.find('\n'));
    lines.push_back(std::move(line));
  }
  lines.push_back("it registered itself: it leaves when its job ends, and nobody starts it again");
  return lines;
}

}  // namespace

ApiTask explain_service(ApiContext& context, const ApiCall& call) {
  Json document;
  if (const auto* service = find_service(context.state, call.names[0], call.caller)) {
    document = service_document(context, *service);
    ServiceView view = context.view(service->public_name).value_or(ServiceView{});
    document["explanation"] = view.explanation;
    document["next_attempt_at"] =
        view.next_attempt_at ? Json(to_rfc3339(*view.next_attempt_at)) : Json(nullptr);
  } else {
    auto self = find_self_registered(context.state, call.names[0], call.caller);
    if (!self) co_return reply_error(no_service(context.state, call.names[0], call.caller));
    document = self_registered_document(*self, context.clock());
    document["explanation"] = explained(*self);
    document["next_attempt_at"] = nullptr;
  }
  document["v"] = 1;
  auto name = document["name"].get<std::string>();
  bool own = find_own_service(context.state, call.names[0], call.caller).ok();
  if (const ReplicaRecord* r = own ? newest_that_ended_silently(context.state, name) : nullptr) {
    std::string path = context.log_path(*r);
    document["explanation"].push_back("its agent said nothing; the log " + path + " ends:");
    auto read = [path] { return last_lines(path, 5); };
    for (const std::string& line : co_await context.pool.run(read))
      document["explanation"].push_back("  " + line);
  }
  Json events = Json::array();
  if (auto newest = co_await read_events(context, name, 10))
    for (const store::EventRecord& e : *newest)
      events.push_back({{"at", to_rfc3339(e.at)},
                        {"kind", e.kind},
                        {"text", e.text},
                        {"replica", e.replica_key}});
  document["events"] = std::move(events);
  co_return reply_json(document);
}

ApiTask service_script(ApiContext& context, const ApiCall& call) {
  auto service = find_own_service(context.state, call.names[0], call.caller);
  if (!service) co_return reply_error(service.error());
  auto replica = co_await choose_replica(context, (*service)->public_name, wanted_replica(call));
  if (!replica) co_return reply_error(replica.error());
  store::Store* store = &context.store;
  auto read = [store, key = replica->key] { return store->script(key); };
  auto script = co_await context.pool.run(read);
  if (!script) co_return reply_error(script.error());
  if (!*script)
    co_return reply_error(not_found("replica " + replica->key + " was not submitted yet"));
  co_return reply_json({{"v", 1}, {"replica", replica->key}, {"script", **script}});
}

ApiTask service_events(ApiContext& context, const ApiCall& call) {
  const ServiceRecord* service = find_service(context.state, call.names[0], call.caller);
  if (!service) co_return reply_error(no_service(context.state, call.names[0], call.caller));
  auto limit = query_number(call, "limit", 50, 1000);
  if (!limit) co_return reply_error(invalid_argument("limit must be a number"));
  auto events = co_await read_events(context, service->public_name, static_cast<int>(*limit));
  if (!events) co_return reply_error(events.error());
  Json list = Json::array();
  for (const store::EventRecord& e : *events)
    list.push_back({{"id", e.id},
                    {"at", to_rfc3339(e.at)},
                    {"kind", e.kind},
                    {"text", e.text},
                    {"replica", e.replica_key}});
  co_return reply_json({{"v", 1}, {"events", std::move(list)}});
}

ApiTask service_logs(ApiContext& context, const ApiCall& call) {
  auto service = find_own_service(context.state, call.names[0], call.caller);
  if (!service) co_return reply_error(service.error());
  auto replica = co_await choose_replica(context, (*service)->public_name, wanted_replica(call));
  if (!replica) co_return reply_error(replica.error());
  auto offset = query_number(call, "offset", 0, INT64_MAX);
  auto limit = query_number(call, "limit", 64 * 1024, 1024 * 1024);
  if (!offset || !limit) co_return reply_error(invalid_argument("offset and limit are numbers"));
  std::string path = context.log_path(*replica);
  int64_t from = *offset, bytes = *limit;
  auto read = [path, from, bytes] { return read_piece(path, from, bytes); };
  auto piece = co_await context.pool.run(read);
  if (!piece) co_return reply_error(piece.error());
  co_return reply_json({{"v", 1},
                        {"replica", replica->key},
                        {"path", path},
                        {"offset", from},
                        {"next_offset", std::max(from, piece->next_offset)},
                        {"text", piece->text},
                        {"ended", replica->state == ReplicaState::ended}});
}

ApiTask doctor(ApiContext& context, const ApiCall&) {
  sched::Scheduler* scheduler = &context.scheduler;
  auto diagnose = [scheduler] { return scheduler->diagnose(); };
  std::vector<sched::Finding> findings = co_await context.pool.run(diagnose);
  for (sched::Finding& f : context.own_findings()) findings.push_back(std::move(f));
  std::vector<LeaseRecord> ready;  // a copy: leases come and go while we wait for answers
  for (const auto& [id, lease] : context.state.snapshot().leases)
    if (lease.state == LeaseState::ready) ready.push_back(lease);
  for (const LeaseRecord& lease : ready) {
    auto answer = co_await context.dial_back(lease);
    bool ok = answer.answer == Leases::Reachability::Answer::reachable;
    findings.push_back({ok ? sched::Finding::Level::ok : sched::Finding::Level::problem,
                        "replica of " + lease.public_name + " on " + lease.node,
                        ok ? "answers at " + lease.address : answer.detail});
  }
  Json list = Json::array();
  for (const sched::Finding& f : findings)
    list.push_back({{"level", level_text(f.level)}, {"what", f.what}, {"detail", f.detail}});
  co_return reply_json({{"v", 1}, {"findings", std::move(list)}});
}

}  // namespace berth::controller
