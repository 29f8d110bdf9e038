#include "controller/api_schema.h"

#include <nlohmann/json.hpp>

#include "base/check.h"

namespace berth::controller {
namespace {

Json kind_of(std::string_view kind) {
  if (kind.ends_with("|null")) {
    Json inner = kind_of(kind.substr(0, kind.size() - 5));
    if (!inner.contains("$ref")) {
      inner["nullable"] = true;
      return inner;
    }
    return {{"allOf", Json::array({inner})}, {"nullable", true}};
  }
  if (kind.starts_with('[')) {
    CHECK(kind.ends_with(']'));
    return {{"type", "array"}, {"items", kind_of(kind.substr(1, kind.size() - 2))}};
  }
  if (kind == "text") return {{"type", "string"}};
  if (kind == "number") return {{"type", "integer"}};
  if (kind == "flag") return {{"type", "boolean"}};
  if (kind == "any") return Json::object();
  return {{"$ref", "#/components/schemas/" + std::string(kind)}};
}

Json schema_of(std::string_view members) {
  Json properties = Json::object(), required = Json::array();
  while (!members.empty()) {
    size_t space = members.find(' ');
    std::string_view member = members.substr(0, space);
    members.remove_prefix(space == std::string_view::npos ? members.size() : space + 1);
    size_t colon = member.find(':');
    CHECK(colon != std::string_view::npos);
    std::string_view name = member.substr(0, colon);
    bool optional = name.ends_with('?');
    if (optional) name.remove_suffix(1);
    properties[std::string(name)] = kind_of(member.substr(colon + 1));
    if (!optional) required.push_back(name);
  }
  Json schema = {{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) schema["required"] = std::move(required);
  return schema;
}

}  // namespace

const std::vector<ApiSchema>& api_schemas() {
  static const std::vector<ApiSchema> all = {
      {"Error", "error:ErrorDetail"},
      {"ErrorDetail", "message:text type:text param:text|null code:text|null"},
      {"Service",
       "v?:number name:text owner:text project:text self_registered:flag wanted:text status:text "
       "status_text:text ready:number wanted_replicas:number replicas:[Replica] leases:[Lease] "
       "generation?:number older_replicas?:number created_at?:text spec?:Spec action?:text"},
      {"Explanation",
       "v:number name:text owner:text project:text self_registered:flag wanted:text status:text "
       "status_text:text ready:number wanted_replicas:number replicas:[Replica] leases:[Lease] "
       "generation?:number older_replicas?:number created_at?:text spec?:Spec explanation:[text] "
       "next_attempt_at:text|null events:[Event]"},
      {"Services", "v:number services:[Service]"},
      {"Replica",
       "key:text job_id:number cluster:text state:text node:text reason:text since:text|null "
       "ends_at:text|null time_left_s:number|null estimated_start:text|null generation:number "
       "restarts:number submit:text submit_error:text lease_id:text intended_at:text "
       "started_at:text|null ready_at:text|null start:Start ended_at:text|null "
       "end_cause:text|null end_detail:text exit_code:number|null signal:number|null "
       "stopping:text|null log_path:text"},
      {"Start", "began_at:text|null engine_at:text|null answered_at:text|null routed_at:text|null"},
      {"Lease",
       "id:text service:text replica_key:text owner:text project:text state:text detail:text "
       "job_id:number node:text address:text engine:text served_model:text "
       "context_length:number|null registered_at:text stops_at:text|null time_left_s:number|null"},
      {"Leases", "v:number leases:[Lease]"},
      // As a service file: see docs/users/services.md.
      {"Spec",
       "name?:text engine?:text model?:text args?:any command?:any served_model_name?:text "
       "setup?:text env?:any slurm?:any replicas?:any access?:any isolation?:text "
       "load_timeout?:any drain_grace?:any log_dir?:text max_start_attempts?:any"},
      {"Declare", "v?:number spec:Spec project?:text"},
      {"Planned", "v:number plan:Plan"},
      {"Plan", "name:text action:text changes:[FieldChange] effects:[text]"},
      {"FieldChange", "path:text from:any to:any"},
      {"Action", "v?:number action:text replicas?:number"},
      {"Script", "v:number replica:text script:text"},
      {"Log",
       "v:number replica:text path:text offset:number next_offset:number text:text ended:flag"},
      {"Event", "id?:number at:text kind:text text:text replica:text"},
      {"Events", "v:number events:[Event]"},
      {"Key",
       "v?:number id:text name:text user:text project:text groups:[text] role:text "
       "created_at:text expires_at:text|null revoked_at:text|null"},
      {"Keys", "v:number keys:[Key]"},
      {"NewKey",
       "v?:number name:text user?:text project?:text groups?:[text] role?:text "
       "expires_at?:text|null"},
      {"MadeKey",
       "v:number id:text name:text user:text project:text groups:[text] role:text "
       "created_at:text expires_at:text|null revoked_at:text|null key:text"},
      {"Grant", "v?:number name:text holder:text granted_by?:text created_at?:text"},
      {"Grants", "v:number grants:[Grant]"},
      {"NewGrant", "v?:number name:text holder:text"},
      {"RemovedGrant", "v:number name:text"},
      {"Finding", "level:text what:text detail:text"},
      {"Findings", "v:number findings:[Finding]"},
      {"Register",
       "v:number service:text replica_key?:text job_id?:number cluster?:text restarts?:number "
       "node?:text address:text secret:text renew:text engine:text access?:any "
       "stops_at?:text|null began_ago_ms?:number engine_ago_ms?:number"},
      {"Registered", "v:number lease_id:text public_name:text ttl_ms:number heartbeat_ms:number"},
      {"Heartbeat",
       "v:number state:text detail?:text served_model?:text context_length?:number "
       "in_flight?:number stops_at?:text|null answered_ago_ms?:number"},
      {"Beaten", "v:number directive:text why:text ttl_ms:number job_ends_at:text|null"},
      {"End", "v:number cause:text detail?:text exit_code?:number signal?:number"},
      {"Ended", "v:number"},
      {"OpenApi", "openapi:text info:any paths:any components:any"},
  };
  return all;
}

Json openapi_schemas() {
  Json out = Json::object();
  for (const ApiSchema& schema : api_schemas())
    out[std::string(schema.name)] = schema_of(schema.members);
  return out;
}

}  // namespace berth::controller
