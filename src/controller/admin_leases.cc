#include <nlohmann/json.hpp>

#include "controller/admin.h"

namespace berth::controller {
namespace {

std::string_view bearer(const ApiRequest& request) {
  std::string_view text = request.authorization;
  constexpr std::string_view kBearer = "Bearer ";
  return text.starts_with(kBearer) ? text.substr(kBearer.size()) : std::string_view();
}

bool may_see(const LeaseRecord& lease, const route::Caller& caller) {
  route::Route r;
  r.owner = lease.owner;
  r.project = lease.project;
  r.access = lease.access;
  return route::may_use(r, caller);
}

// What an agent said of the past, by the time it is used.
void age(std::optional<Duration>& ago, Duration waited) {
  if (ago) *ago += waited;
}

}  // namespace

Json lease_document(const LeaseRecord& lease, Instant now) {
  return {{"id", lease.id},
          {"service", lease.public_name},
          {"replica_key", lease.replica_key},
          {"owner", lease.owner},
          {"project", lease.project},
          {"state", to_string(lease.state)},
          {"detail", lease.detail},
          {"job_id", lease.job.id},
          {"node", lease.node},
          {"address", lease.address},
          {"engine", to_string(lease.engine)},
          {"served_model", lease.served_model},
          {"context_length", lease.context_length ? Json(*lease.context_length) : Json(nullptr)},
          {"registered_at", to_rfc3339(lease.registered_at)},
          {"stops_at", lease.stops_at ? Json(to_rfc3339(*lease.stops_at)) : Json(nullptr)},
          {"time_left_s", time_left(lease.stops_at, now)}};
}

Json time_left(const std::optional<Instant>& end, Instant now) {
  if (!end) return nullptr;
  return std::max<int64_t>(0, (*end - now).count() / 1000);
}

std::vector<SelfRegistered> self_registered_services(const State& state,
                                                     const route::Caller& caller) {
  std::map<std::string, SelfRegistered> by_name;
  for (const auto& [id, lease] : state.snapshot().leases) {
    if (!lease.replica_key.empty() || !may_see(lease, caller)) continue;
    SelfRegistered& service = by_name[lease.public_name];
    service.name = lease.public_name;
    service.leases.push_back(lease);
  }
  std::vector<SelfRegistered> out;
  for (auto& [name, service] : by_name) out.push_back(std::move(service));
  return out;
}

std::optional<SelfRegistered> find_self_registered(const State& state, const std::string& name,
                                                   const route::Caller& caller) {
  std::vector<SelfRegistered> all = self_registered_services(state, caller);
  for (const std::string& candidate : {name, caller.user + "/" + name})
    for (SelfRegistered& service : all)
      if (service.name == candidate) return std::move(service);
  return std::nullopt;
}

Json self_registered_document(const SelfRegistered& service, Instant now) {
  Json list = Json::array();
  int ready = 0;
  for (const LeaseRecord& lease : service.leases) {
    list.push_back(lease_document(lease, now));
    if (lease.state == LeaseState::ready) ready++;
  }
  const LeaseRecord& first = service.leases.front();
  return {{"name", service.name},
          {"owner", first.owner},
          {"project", first.project},
          {"self_registered", true},
          {"wanted", "running"},
          {"status", ready > 0 ? "ready" : "starting"},
          {"status_text", std::to_string(ready) + " of " + std::to_string(service.leases.size()) +
                              " registered replicas ready"},
          {"ready", ready},
          {"wanted_replicas", service.leases.size()},
          {"replicas", Json::array()},
          {"leases", std::move(list)}};
}

Error no_service(const State& state, const std::string& name, const route::Caller& caller) {
  auto self = find_self_registered(state, name, caller);
  if (!self) return not_found("no service \"" + name + "\"; `berth ps` lists what there is");
  std::string job = std::to_string(self->leases.front().job.id);
  return Error{Code::conflict,
               "\"" + self->name + "\" registered itself from job " + job +
                   "; Berth did not submit that job: its output is where its script says, and "
                   "`scancel " +
                   job + "` ends it",
               Source::caller, Retry::no};
}

ApiTask list_leases(ApiContext& context, const ApiCall& call) {
  Json leases = Json::array();
  for (const auto& [id, lease] : context.state.snapshot().leases)
    if (may_see(lease, call.caller)) leases.push_back(lease_document(lease, context.clock()));
  co_return reply_json({{"v", 1}, {"leases", std::move(leases)}});
}

ApiTask register_lease(ApiContext& context, const ApiCall& call) {
  auto request = proto::parse_register_request(call.request.body);
  if (!request) co_return reply_error(request.error());
  Instant heard_at = context.clock();
  auto claim = co_await context.verify(call.request.authorization, call.request.body, *request);
  if (!claim) co_return reply_error(claim.error());
  age(request->began_ago, context.clock() - heard_at);
  age(request->engine_ago, context.clock() - heard_at);
  auto reply = context.leases.admit(*request, *claim, context.clock());
  if (!reply) co_return reply_error(reply.error());
  context.changed();
  co_return reply_json(proto::to_json(*reply), 201);
}

ApiTask heartbeat(ApiContext& context, const ApiCall& call) {
  auto lease = context.leases.authenticate(call.names[0], bearer(call.request));
  if (!lease) co_return reply_error(lease.error());
  auto request = proto::parse_heartbeat_request(call.request.body);
  if (!request) co_return reply_error(request.error());
  Instant heard_at = context.clock();
  Leases::Reachability reachability;
  if (context.leases.needs_dial_back(*lease, *request)) {
    LeaseRecord candidate = *lease;
    candidate.served_model = request->served_model;
    reachability = co_await context.dial_back(std::move(candidate));
  }
  age(request->answered_ago, context.clock() - heard_at);
  auto reply = context.leases.heartbeat(lease->id, *request, reachability, context.clock());
  if (!reply) co_return reply_error(reply.error());
  const auto& leases = context.state.snapshot().leases;
  auto now = leases.find(lease->id);
  if (now != leases.end() && !(now->second == *lease)) context.changed();
  ApiReply answer = reply_json(proto::to_json(*reply));
  answer.routine = true;
  co_return answer;
}

ApiTask end_lease(ApiContext& context, const ApiCall& call) {
  auto lease = context.leases.authenticate(call.names[0], bearer(call.request));
  if (!lease) co_return reply_error(lease.error());
  auto report = proto::parse_end_report(call.request.body);
  if (!report) co_return reply_error(report.error());
  if (auto s = context.leases.end(lease->id, *report, context.clock()); !s)
    co_return reply_error(s.error());
  context.changed();
  co_return reply_json({{"v", 1}});
}

}  // namespace berth::controller
