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
Json lease_document(const LeaseRecord& lease);
// Self-registered services (a group of leases of one name) as the API shows them.
Json self_registered_document(const std::string& name, const std::vector<LeaseRecord>& leases);

}  // namespace berth::controller
