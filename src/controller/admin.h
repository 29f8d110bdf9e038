// The functions behind the API's routes, one file per noun (admin_<noun>.cc). See api.h.
#pragma once

#include "controller/api.h"
#include "controller/api_context.h"

namespace berth::controller {

using ApiTask = runtime::Task<ApiReply>;

// admin_services.cc
ApiTask list_services(ApiContext& context, const ApiCall& call);
ApiTask get_service(ApiContext& context, const ApiCall& call);
ApiTask put_service(ApiContext& context, const ApiCall& call);
ApiTask delete_service(ApiContext& context, const ApiCall& call);
ApiTask act_on_service(ApiContext& context, const ApiCall& call);

// admin_inspect.cc
ApiTask explain_service(ApiContext& context, const ApiCall& call);
ApiTask service_script(ApiContext& context, const ApiCall& call);
ApiTask service_events(ApiContext& context, const ApiCall& call);
ApiTask service_logs(ApiContext& context, const ApiCall& call);
ApiTask doctor(ApiContext& context, const ApiCall& call);

// admin_keys.cc
ApiTask list_keys(ApiContext& context, const ApiCall& call);
ApiTask create_key(ApiContext& context, const ApiCall& call);
ApiTask revoke_key(ApiContext& context, const ApiCall& call);
ApiTask list_grants(ApiContext& context, const ApiCall& call);
ApiTask create_grant(ApiContext& context, const ApiCall& call);
ApiTask remove_grant(ApiContext& context, const ApiCall& call);

// admin_leases.cc
ApiTask list_leases(ApiContext& context, const ApiCall& call);
ApiTask register_lease(ApiContext& context, const ApiCall& call);
ApiTask heartbeat(ApiContext& context, const ApiCall& call);
ApiTask end_lease(ApiContext& context, const ApiCall& call);

// admin_openapi.cc
ApiTask openapi(ApiContext& context, const ApiCall& call);

// A declared service by what the caller wrote: its public name, or "name" for "user/name".
// nullptr: there is none, or the caller may not see it.
const ServiceRecord* find_service(const State& state, const std::string& name,
                                  const route::Caller& caller);
// The same, for changing it: the owner, or an operator.
Result<const ServiceRecord*> find_own_service(const State& state, const std::string& name,
                                              const route::Caller& caller);
// A service as the API shows it.
Json service_document(const ApiContext& context, const ServiceRecord& service);
Json lease_document(const LeaseRecord& lease, Instant now);
// Seconds until then, null without an end.
Json time_left(const std::optional<Instant>& end, Instant now);

// Leases of one name that belong to no declared service.
struct SelfRegistered {
  std::string name;
  std::vector<LeaseRecord> leases;
};
// By what the caller wrote, as in find_service; nullopt: there is none, or the caller may not see
// it.
std::optional<SelfRegistered> find_self_registered(const State& state, const std::string& name,
                                                   const route::Caller& caller);
// All that the caller may see, by name.
std::vector<SelfRegistered> self_registered_services(const State& state,
                                                     const route::Caller& caller);
Json self_registered_document(const SelfRegistered& service, Instant now);
// Why there is no declared service of that name: there is none, or it registered itself.
Error no_service(const State& state, const std::string& name, const route::Caller& caller);

}  // namespace berth::controller
