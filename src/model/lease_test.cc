#include "model/lease.h"

#include <gtest/gtest.h>

namespace berth {
namespace {

TEST(Lease, StatesRoundTrip) {
  for (auto text : {"loading", "ready", "unhealthy", "draining"})
    EXPECT_EQ(to_string(parse_lease_state(text).value()), text);
  EXPECT_EQ(parse_lease_state("READY"), std::nullopt);
}

}  // namespace
}  // namespace berth
