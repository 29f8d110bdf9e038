// The simulator must bite: every planted mistake is caught by an oracle within a few seeds, and
// the same seeds find nothing in the controller as it is.
#include "sim/simulation.h"

#include <gtest/gtest.h>

namespace berth::sim {
namespace {

constexpr uint64_t kSeeds = 40;

struct Planted {
  plan::Flaw flaw;
  const char* name;
};

class PlantedMistake : public testing::TestWithParam<Planted> {};

TEST_P(PlantedMistake, IsCaughtWithinAFewSeeds) {
  int caught = 0;
  uint64_t first = 0;
  std::string how;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Options options;
    options.seed = seed;
    options.flaw = GetParam().flaw;
    Outcome o = simulate(options);
    if (o.ok()) continue;
    if (caught++ == 0) first = seed, how = *o.violation;
  }
  EXPECT_GE(caught, 3) << GetParam().name;
  EXPECT_LE(first, 20u) << GetParam().name;
  RecordProperty("caught", caught);
  printf("%s: caught by %d of %d seeds, first %d: %s\n", GetParam().name, caught,
         static_cast<int>(kSeeds), static_cast<int>(first), how.c_str());
}

INSTANTIATE_TEST_SUITE_P(All, PlantedMistake,
                         testing::Values(Planted{plan::Flaw::partial_absence, "PartialAbsence"},
                                         Planted{plan::Flaw::intent_after_submit,
                                                 "IntentAfterSubmit"},
                                         Planted{plan::Flaw::requeue_as_new, "RequeueAsNew"},
                                         Planted{plan::Flaw::stale_listing, "StaleListing"},
                                         Planted{plan::Flaw::reused_id, "ReusedId"},
                                         Planted{plan::Flaw::lost_cancel, "LostCancel"},
                                         Planted{plan::Flaw::stale_feed_expiry, "StaleFeedExpiry"}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Simulation, TheSameSeedsFindNothingInTheControllerAsItIs) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Options options;
    options.seed = seed;
    if (seed % 10 == 0) options.store = StoreKind::sqlite;
    Outcome o = simulate(options);
    EXPECT_TRUE(o.ok()) << "seed " << seed << ": " << o.violation.value_or("");
    EXPECT_GT(o.jobs, 0);
  }
}

TEST(Simulation, TheSameSeedGivesTheSameRunOnEitherStore) {
  for (uint64_t seed : {3u, 4u}) {
    Options options;
    options.seed = seed;
    Outcome a = simulate(options), b = simulate(options);
    options.store = StoreKind::sqlite;
    Outcome c = simulate(options);
    EXPECT_EQ(a.digest, b.digest);
    EXPECT_EQ(a.digest, c.digest);
    EXPECT_EQ(a.steps, b.steps);
  }
}

}  // namespace
}  // namespace berth::sim
