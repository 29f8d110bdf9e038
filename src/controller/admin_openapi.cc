#include <nlohmann/json.hpp>

#include "controller/admin.h"

namespace berth::controller {

// The document is made from the same table that requests are matched against.
ApiTask openapi(ApiContext&, const ApiCall&) {
  Json paths = Json::object();
  for (const ApiRoute& route : api_routes()) {
    std::string method(route.method);
    for (char& c : method) c = static_cast<char>(c | 0x20);
    Json operation = {
        {"summary", route.summary},
        {"responses",
         {{"200", {{"description", "the document asked for, with \"v\": 1"}}},
          {"default",
           {{"description", "what went wrong"},
            {"content",
             {{"application/json", {{"schema", {{"$ref", "#/components/schemas/Error"}}}}}}}}}}}};
    Json parameters = Json::array();
    for (size_t at = 0; (at = route.pattern.find('{', at)) != std::string_view::npos; ++at) {
      std::string name(route.pattern.substr(at + 1, route.pattern.find('}', at) - at - 1));
      parameters.push_back(
          {{"name", name}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}});
    }
    if (!parameters.empty()) operation["parameters"] = std::move(parameters);
    operation["security"] = Json::array({{{"bearer", Json::array()}}});
    paths[std::string(route.pattern)][method] = std::move(operation);
  }
  Json text = {{"type", "string"}};
  Json nullable = {{"type", "string"}, {"nullable", true}};
  Json document = {{"openapi", "3.0.3"},
                   {"info", {{"title", "Berth"}, {"version", BERTH_VERSION}}},
                   {"paths", std::move(paths)},
                   {"components",
                    {{"securitySchemes", {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}}}},
                     {"schemas",
                      {{"Error",
                        {{"type", "object"},
                         {"properties",
                          {{"error",
                            {{"type", "object"},
                             {"properties",
                              {{"message", text},
                               {"type", text},
                               {"param", nullable},
                               {"code", nullable}}}}}}}}}}}}}};
  co_return reply_json(document);
}

}  // namespace berth::controller
