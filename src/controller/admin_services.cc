#include <nlohmann/json.hpp>

#include "config/service_document.h"
#include "controller/admin.h"
#include "controller/declare.h"

namespace berth::controller {
namespace {

std::string_view wanted_text(ServiceRecord::Wanted wanted) {
  switch (wanted) {
    case ServiceRecord::Wanted::running:
      return "running";
    case ServiceRecord::Wanted::stopped:
      return "stopped";
    case ServiceRecord::Wanted::removed:
      return "removed";
  }
  return "running";
}

bool may_see(const ServiceRecord& service, const route::Caller& caller) {
  route::Route r;
  r.owner = service.owner;
  r.project = service.project;
  r.access = service.spec.access;
  return route::may_use(r, caller);
}

Json optional_time(const std::optional<Instant>& t) {
  return t ? Json(to_rfc3339(*t)) : Json(nullptr);
}

Json replica_document(const ApiContext& context, const ReplicaRecord& r) {
  Instant now = context.clock();
  std::optional<Instant> end = r.ends_at;  // at first only the agent knows it
  if (const LeaseRecord* lease = context.state.lease(r.lease_id); lease && !end)
    end = lease->stops_at;
  return {{"key", r.key},
          {"job_id", r.job.id},
          {"cluster", r.job.cluster},
          {"state", to_string(r.state)},
          {"node", r.node},
          {"reason", r.reason},
          {"since", optional_time(r.reason_since ? r.reason_since : r.started_at)},
          {"ends_at", optional_time(end)},
          {"time_left_s", r.state == ReplicaState::ended ? Json(nullptr) : time_left(end, now)},
          {"estimated_start", optional_time(r.estimated_start)},
          {"generation", r.generation},
          {"restarts", r.restarts},
          {"submit", to_string(r.submit)},
          {"submit_error", r.submit_error},
          {"lease_id", r.lease_id},
          {"intended_at", to_rfc3339(r.intended_at)},
          {"started_at", optional_time(r.started_at)},
          {"ready_at", optional_time(r.ready_at)},
          {"start",
           {{"began_at", optional_time(r.start.began_at)},
            {"engine_at", optional_time(r.start.engine_at)},
            {"answered_at", optional_time(r.start.answered_at)},
            {"routed_at", optional_time(r.start.routed_at)}}},
          {"ended_at", optional_time(r.ended_at)},
          {"end_cause", r.end_cause ? Json(to_string(*r.end_cause)) : Json(nullptr)},
          {"end_detail", r.end_detail},
          {"exit_code", r.exit_code ? Json(*r.exit_code) : Json(nullptr)},
          {"signal", r.signal ? Json(*r.signal) : Json(nullptr)},
          {"stopping", r.stop ? Json(r.stop->why) : Json(nullptr)},
          {"log_path", context.log_path(r)}};
}

int target_of(const ServiceRecord& service) {
  return service.wanted == ServiceRecord::Wanted::running ? service.spec.replicas : 0;
}

// What the controller said last, unless something was wished since then that it has not seen.
ServiceView view_of(const ApiContext& context, const ServiceRecord& service) {
  ServiceView view = context.view(service.public_name).value_or(ServiceView{});
  if (view.at > service.updated_at) return view;
  int target = target_of(service);
  bool as_before = view.status == ServiceStatus::ready && view.ready >= target;
  if (target == 0)
    view.status = ServiceStatus::stopped;
  else if (!as_before)
    view.status = ServiceStatus::starting;
  view.status_text = to_string(view.status);
  return view;
}

// Replicas of before a change or a restart, that serve until they are replaced.
int older_replicas(const ApiContext& context, const ServiceRecord& service) {
  int older = 0;
  for (const auto& [key, r] : context.state.snapshot().replicas) {
    bool current = r.generation == service.generation && r.restart_nonce == service.restart_nonce;
    bool serves = !r.stop && r.state != ReplicaState::ended && r.state != ReplicaState::draining;
    older += r.service == service.public_name && serves && !current;
  }
  return older;
}

struct PutBody {
  ServiceSpec spec;
  std::string project;
};

Result<PutBody> parse_put(const ApiContext& context, const ApiCall& call) {
  auto body = parse_json(call.request.body);
  if (!body) return std::move(body).error();
  if (!body->is_object() || !body->contains("spec"))
    return invalid_argument("the body must be {\"v\": 1, \"spec\": {...}}");
  PutBody out;
  if (body->contains("project") && (*body)["project"].is_string())
    out.project = (*body)["project"].get<std::string>();
  auto spec = config::parse_service_document((*body)["spec"], context.defaults);
  if (!spec) return std::move(spec).error();
  out.spec = std::move(spec).value();
  if (out.spec.name.empty()) out.spec.name = call.names[0];
  if (out.spec.name != call.names[0] && call.names[0] != call.caller.user + "/" + out.spec.name)
    return invalid_argument("the path names \"" + call.names[0] + "\" but the spec is called \"" +
                            out.spec.name + "\"");
  if (call.names[0] != out.spec.name) out.spec.name = call.names[0];
  return out;
}

Json changes_document(const std::vector<FieldChange>& changes) {
  Json list = Json::array();
  for (const FieldChange& change : changes)
    list.push_back({{"path", change.path},
                    {"from", parse_json(change.from).value()},
                    {"to", parse_json(change.to).value()}});
  return list;
}

std::string_view action_text(Declaration::Action action) {
  switch (action) {
    case Declaration::Action::create:
      return "create";
    case Declaration::Action::update:
      return "update";
    case Declaration::Action::none:
      return "none";
  }
  return "none";
}

// What a start, stop, restart or scale makes of a service.
Result<ServiceRecord> apply_action(ServiceRecord service, const Json& body, Instant now) {
  std::string action = body.value("action", "");
  if (action == "start") {
    service.wanted = ServiceRecord::Wanted::running;
  } else if (action == "stop") {
    service.wanted = ServiceRecord::Wanted::stopped;
  } else if (action == "restart") {
    service.wanted = ServiceRecord::Wanted::running;
    service.restart_nonce++;
  } else if (action == "scale") {
    if (!body.contains("replicas") || !body["replicas"].is_number_integer())
      return invalid_argument("scale needs \"replicas\", a number");
    int64_t n = body["replicas"].get<int64_t>();
    if (n < 0 || n > 1000) return invalid_argument("replicas must be from 0 to 1000");
    service.spec.replicas = static_cast<int>(n);
  } else {
    return invalid_argument("action must be start, stop, restart or scale, not \"" + action + "\"");
  }
  service.resumed_at = now;
  service.updated_at = now;
  return service;
}

}  // namespace

const ServiceRecord* find_service(const State& state, const std::string& name,
                                  const route::Caller& caller) {
  const auto& services = state.snapshot().services;
  for (const std::string& candidate : {name, caller.user + "/" + name}) {
    auto it = services.find(candidate);
    if (it != services.end() && may_see(it->second, caller)) return &it->second;
  }
  return nullptr;
}

Result<const ServiceRecord*> find_own_service(const State& state, const std::string& name,
                                              const route::Caller& caller) {
  const ServiceRecord* service = find_service(state, name, caller);
  if (!service) return no_service(state, name, caller);
  if (service->owner != caller.user && caller.role != route::Caller::Role::operator_)
    return Error{Code::permission_denied,
                 "service \"" + service->public_name + "\" belongs to " + service->owner,
                 Source::caller, Retry::no};
  return service;
}

Json service_document(const ApiContext& context, const ServiceRecord& service) {
  const store::Snapshot& snapshot = context.state.snapshot();
  Json replicas = Json::array(), leases = Json::array();
  for (const auto& [key, replica] : snapshot.replicas)
    if (replica.service == service.public_name)
      replicas.push_back(replica_document(context, replica));
  std::sort(replicas.begin(), replicas.end(),
            [](const Json& a, const Json& b) { return a["intended_at"] < b["intended_at"]; });
  for (const auto& [id, lease] : snapshot.leases)
    if (lease.public_name == service.public_name)
      leases.push_back(lease_document(lease, context.clock()));
  ServiceView view = view_of(context, service);
  return {{"name", service.public_name},
          {"owner", service.owner},
          {"project", service.project},
          {"self_registered", false},
          {"generation", service.generation},
          {"wanted", wanted_text(service.wanted)},
          {"status", to_string(view.status)},
          {"status_text", view.status_text},
          {"ready", view.ready},
          {"wanted_replicas", target_of(service)},
          {"older_replicas", older_replicas(context, service)},
          {"created_at", to_rfc3339(service.created_at)},
          {"spec", config::to_json(service.spec)},
          {"replicas", std::move(replicas)},
          {"leases", std::move(leases)}};
}

ApiTask list_services(ApiContext& context, const ApiCall& call) {
  Json services = Json::array();
  for (const auto& [name, service] : context.state.snapshot().services)
    if (may_see(service, call.caller)) services.push_back(service_document(context, service));
  for (const SelfRegistered& service : self_registered_services(context.state, call.caller))
    services.push_back(self_registered_document(service, context.clock()));
  co_return reply_json({{"v", 1}, {"services", std::move(services)}});
}

ApiTask get_service(ApiContext& context, const ApiCall& call) {
  const std::string& name = call.names[0];
  Json document;
  if (const ServiceRecord* service = find_service(context.state, name, call.caller)) {
    document = service_document(context, *service);
  } else {
    auto self = find_self_registered(context.state, name, call.caller);
    if (!self) co_return reply_error(no_service(context.state, name, call.caller));
    document = self_registered_document(*self, context.clock());
  }
  document["v"] = 1;
  co_return reply_json(document);
}

ApiTask put_service(ApiContext& context, const ApiCall& call) {
  auto body = parse_put(context, call);
  if (!body) co_return reply_error(body.error());
  auto declared = declare(context.state, call.caller, body->project, std::move(body->spec),
                          context.loopback, context.clock());
  if (!declared) co_return reply_error(declared.error());
  if (call.query.count("plan"))
    co_return reply_json({{"v", 1},
                          {"plan",
                           {{"name", declared->record.public_name},
                            {"action", action_text(declared->action)},
                            {"changes", changes_document(declared->changes)},
                            {"effects", declared->effects}}}});
  bool created = declared->action == Declaration::Action::create;
  if (declared->action != Declaration::Action::none) {
    store::Change change;
    change.put_services.push_back(declared->record);
    change.events.push_back({0, context.clock(), declared->record.public_name, "",
                             created ? "created" : "updated", "by " + call.caller.user});
    if (auto s = context.state.commit(change); !s) co_return reply_error(s.error());
    context.changed();
  }
  Json document = service_document(context, declared->record);
  document["v"] = 1;
  document["action"] = action_text(declared->action);
  co_return reply_json(document, created ? 201 : 200);
}

ApiTask delete_service(ApiContext& context, const ApiCall& call) {
  auto found = find_own_service(context.state, call.names[0], call.caller);
  if (!found) co_return reply_error(found.error());
  ServiceRecord service = **found;
  if (service.wanted != ServiceRecord::Wanted::removed) {
    service.wanted = ServiceRecord::Wanted::removed;
    service.updated_at = context.clock();
    store::Change change;
    change.put_services.push_back(service);
    change.events.push_back(
        {0, service.updated_at, service.public_name, "", "remove_asked", "by " + call.caller.user});
    if (auto s = context.state.commit(change); !s) co_return reply_error(s.error());
    context.changed();
  }
  Json document = service_document(context, service);
  document["v"] = 1;
  co_return reply_json(document, 202);
}

ApiTask act_on_service(ApiContext& context, const ApiCall& call) {
  auto found = find_own_service(context.state, call.names[0], call.caller);
  if (!found) co_return reply_error(found.error());
  auto body = parse_json(call.request.body);
  if (!body) co_return reply_error(body.error());
  if (!body->is_object() || !body->contains("action") || !(*body)["action"].is_string())
    co_return reply_error(invalid_argument("the body must be {\"v\": 1, \"action\": \"...\"}"));
  if ((*found)->wanted == ServiceRecord::Wanted::removed)
    co_return reply_error(Error{Code::conflict,
                                "service \"" + (*found)->public_name + "\" is being removed",
                                Source::caller, Retry::no});
  auto changed = apply_action(**found, *body, context.clock());
  if (!changed) co_return reply_error(changed.error());
  store::Change change;
  change.put_services.push_back(*changed);
  change.events.push_back({0, changed->updated_at, changed->public_name, "",
                           (*body)["action"].get<std::string>(), "by " + call.caller.user});
  if (auto s = context.state.commit(change); !s) co_return reply_error(s.error());
  context.changed();
  Json document = service_document(context, *changed);
  document["v"] = 1;
  co_return reply_json(document);
}

}  // namespace berth::controller
