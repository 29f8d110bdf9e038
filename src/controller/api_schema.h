// What the API's documents hold, as data: for the OpenAPI document, and for the test that holds
// every answer against it.
//
// A schema is written as members with their kinds, "name:text ready:number leases:[Lease]":
//   text number flag any            strings, integers, booleans, any JSON
//   Name [Name] [text]              another schema, lists
//   name?:...                       a member that may be missing
//   ...|null                        a value that may be null
// Threading: values.
#pragma once

#include <string_view>
#include <vector>

#include "base/json.h"

namespace berth::controller {

struct ApiSchema {
  std::string_view name;  // "Service"
  std::string_view members;
};

const std::vector<ApiSchema>& api_schemas();

// As JSON schemas, by name: components/schemas of the OpenAPI document.
Json openapi_schemas();

}  // namespace berth::controller
