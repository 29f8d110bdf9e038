// Fixed routes and keys from a JSON file: a gateway without a controller, for benchmarks and for
// tests of the data path.
//
//   {"routes": [{"name": "m1", "replicas": [{"address": "127.0.0.1:9001", "secret": "...",
//                                            "served_model": "m1"}]}],
//    "keys": [{"key": "sk-...", "user": "bench", "project": "p"}]}
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "route/route_table.h"

namespace berth::app {

struct StaticRoutes {
  std::shared_ptr<const route::RouteTable> routes;
  std::shared_ptr<const route::KeyTable> keys;
};

// Errors name the member at fault.
Result<StaticRoutes> parse_static_routes(std::string_view text);

}  // namespace berth::app
