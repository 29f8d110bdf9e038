#include "app/static_routes.h"

#include <nlohmann/json.hpp>

#include "base/id.h"
#include "base/json.h"

namespace berth::app {
namespace {

std::string text_of(const Json& object, const char* name, const std::string& fallback = "") {
  if (!object.contains(name) || !object[name].is_string()) return fallback;
  return object[name].get<std::string>();
}

Result<route::Target> read_target(const Json& item, const std::string& route_name) {
  route::Target target;
  target.address = text_of(item, "address");
  if (target.address.empty())
    return invalid_argument("static routes: a replica of \"" + route_name + "\" has no address");
  target.lease_id = "static-" + target.address;
  target.secret = text_of(item, "secret");
  target.served_model = text_of(item, "served_model", route_name);
  target.load = std::make_shared<route::ReplicaLoad>();
  if (item.contains("engine")) {
    auto kind = parse_engine_kind(text_of(item, "engine"));
    if (!kind)
      return invalid_argument("static routes: engine of \"" + route_name + "\" is not known");
    target.engine = *kind;
  }
  return target;
}

}  // namespace

Result<StaticRoutes> parse_static_routes(std::string_view text) {
  auto document = parse_json(text);
  if (!document) return std::move(document).error().wrap("static routes");
  if (!document->is_object() || !document->contains("routes") || !(*document)["routes"].is_array())
    return invalid_argument("static routes: there must be a list \"routes\"");
  std::vector<route::Route> routes;
  for (const Json& item : (*document)["routes"]) {
    route::Route r;
    r.public_name = text_of(item, "name");
    if (r.public_name.empty()) return invalid_argument("static routes: a route has no name");
    r.owner = text_of(item, "owner", "static");
    r.access.scope = AccessSpec::Scope::everybody;
    if (item.contains("replicas"))
      for (const Json& replica : item["replicas"]) {
        auto target = read_target(replica, r.public_name);
        if (!target) return std::move(target).error();
        r.targets.push_back(std::move(target).value());
      }
    r.status = r.targets.empty() ? ServiceStatus::starting : ServiceStatus::ready;
    r.status_text = std::string(to_string(r.status));
    routes.push_back(std::move(r));
  }
  std::unordered_map<std::string, route::KeyTable::Entry> keys;
  if (document->contains("keys"))
    for (const Json& item : (*document)["keys"]) {
      route::KeyTable::Entry entry;
      entry.caller.user = text_of(item, "user", "static");
      entry.caller.project = text_of(item, "project");
      std::string key = text_of(item, "key");
      if (key.empty()) return invalid_argument("static routes: a key has no text");
      std::string digest = sha256_hex(key);
      entry.caller.key_id = "k_" + digest.substr(0, 8);
      keys.emplace(std::move(digest), std::move(entry));
    }
  return StaticRoutes{std::make_shared<const route::RouteTable>(std::move(routes)),
                      std::make_shared<const route::KeyTable>(std::move(keys))};
}

}  // namespace berth::app
