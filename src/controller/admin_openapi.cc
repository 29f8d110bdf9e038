#include <nlohmann/json.hpp>

#include "controller/admin.h"
#include "controller/api_schema.h"

namespace berth::controller {
namespace {

Json reference(std::string_view schema) {
  return {{"$ref", "#/components/schemas/" + std::string(schema)}};
}

Json content_of(Json schema) { return {{"application/json", {{"schema", std::move(schema)}}}}; }

// By status; where one status has two documents, either.
Json responses_of(const ApiRoute& route) {
  std::map<int, std::vector<std::string_view>> by_status;
  for (const ApiAnswer& answer : route.answers) by_status[answer.status].push_back(answer.schema);
  Json out = Json::object();
  for (const auto& [status, schemas] : by_status) {
    Json schema = reference(schemas[0]);
    if (schemas.size() > 1) {
      Json either = Json::array();
      for (std::string_view s : schemas) either.push_back(reference(s));
      schema = {{"oneOf", std::move(either)}};
    }
    out[std::to_string(status)] = {{"description", route.summary},
                                   {"content", content_of(std::move(schema))}};
  }
  out["default"] = {{"description", "what went wrong"},
                    {"content", content_of(reference("Error"))}};
  return out;
}

Json parameters_of(const ApiRoute& route) {
  Json out = Json::array();
  auto add = [&out](std::string_view name, std::string_view where) {
    out.push_back({{"name", name},
                   {"in", where},
                   {"required", where == "path"},
                   {"schema", {{"type", "string"}}}});
  };
  for (size_t at = 0; (at = route.pattern.find('{', at)) != std::string_view::npos; ++at)
    add(route.pattern.substr(at + 1, route.pattern.find('}', at) - at - 1), "path");
  for (std::string_view name : route.query) add(name, "query");
  return out;
}

}  // namespace

// The document is made from the same table that requests are matched against.
ApiTask openapi(ApiContext&, const ApiCall&) {
  Json paths = Json::object();
  for (const ApiRoute& route : api_routes()) {
    std::string method(route.method);
    for (char& c : method) c = static_cast<char>(c | 0x20);
    Json operation = {{"summary", route.summary}, {"responses", responses_of(route)}};
    if (Json parameters = parameters_of(route); !parameters.empty())
      operation["parameters"] = std::move(parameters);
    if (!route.body.empty())
      operation["requestBody"] = {{"required", true},
                                  {"content", content_of(reference(route.body))}};
    operation["security"] = Json::array({{{"bearer", Json::array()}}});
    paths[std::string(route.pattern)][method] = std::move(operation);
  }
  Json schemes = {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}}};
  Json document = {
      {"openapi", "3.0.3"},
      {"info", {{"title", "Berth"}, {"version", BERTH_VERSION}}},
      {"paths", std::move(paths)},
      {"components", {{"securitySchemes", std::move(schemes)}, {"schemas", openapi_schemas()}}}};
  co_return reply_json(document);
}

}  // namespace berth::controller
