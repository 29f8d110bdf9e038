#include "controller/api_schema.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "controller/api.h"

namespace berth::controller {
namespace {

// Every schema that `value` refers to.
void collect(const Json& value, std::set<std::string>& names) {
  if (value.is_object() && value.contains("$ref")) {
    std::string path = value["$ref"];
    names.insert(path.substr(path.rfind('/') + 1));
  }
  if (value.is_structured())  // a text would give itself
    for (const Json& inner : value) collect(inner, names);
}

TEST(ApiSchema, EverySchemaIsUsedAndEveryReferenceHasOne) {
  Json schemas = openapi_schemas();
  EXPECT_EQ(schemas.size(), api_schemas().size()) << "a name twice";
  std::set<std::string> used = {"Error"}, known;
  collect(schemas, used);
  for (const ApiRoute& route : api_routes()) {
    for (const ApiAnswer& answer : route.answers) used.insert(std::string(answer.schema));
    if (!route.body.empty()) used.insert(std::string(route.body));
  }
  for (const auto& [name, schema] : schemas.items()) known.insert(name);
  EXPECT_EQ(known, used);
}

TEST(ApiSchema, Notation) {
  Json replica = openapi_schemas()["Replica"];
  EXPECT_EQ(replica["properties"]["ends_at"], (Json{{"type", "string"}, {"nullable", true}}));
  EXPECT_EQ(replica["properties"]["job_id"], (Json{{"type", "integer"}}));
  Json service = openapi_schemas()["Service"];
  EXPECT_EQ(service["properties"]["leases"]["items"]["$ref"], "#/components/schemas/Lease");
  std::set<std::string> required = service["required"];
  EXPECT_TRUE(required.count("name"));
  EXPECT_FALSE(required.count("spec"));
}

}  // namespace
}  // namespace berth::controller
