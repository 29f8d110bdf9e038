#include "gateway/counters.h"

#include <gtest/gtest.h>

namespace berth::gateway {
namespace {

TEST(Counters, SumOverShardsAsPrometheusText) {
  Counters a, b;
  a.by_class[2].add(3);
  b.by_class[2].add(4);
  a.in_flight.add(2);
  a.in_flight.subtract();
  a.by_end[static_cast<size_t>(http::RelayEnd::client_left)].add();
  b.total.observe(1'000);          // 1 ms: the first bucket
  b.total.observe(1'001);          // over 1 ms: the second
  a.total.observe(3'600'000'000);  // an hour: beyond
  const std::vector<const Counters*> both = {&a, &b};
  std::string text = metrics_text(both);
  auto has = [&](const char* line) { return text.find(line) != text.npos; };
  EXPECT_TRUE(has("berth_gateway_responses_total{class=\"2xx\"} 7\n")) << text;
  EXPECT_TRUE(has("berth_gateway_in_flight 1\n"));
  EXPECT_TRUE(has("berth_gateway_exchanges_total{end=\"client_left\"} 1\n"));
  EXPECT_TRUE(has("berth_gateway_request_seconds_bucket{le=\"0.001000\"} 1\n"));
  EXPECT_TRUE(has("berth_gateway_request_seconds_bucket{le=\"0.002000\"} 2\n"));
  EXPECT_TRUE(has("berth_gateway_request_seconds_bucket{le=\"+Inf\"} 3\n"));
  EXPECT_TRUE(has("berth_gateway_request_seconds_count 3\n"));
  EXPECT_TRUE(has("berth_gateway_request_seconds_sum 3600.002001\n"));
}

}  // namespace
}  // namespace berth::gateway
