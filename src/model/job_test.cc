#include "model/job.h"

#include <gtest/gtest.h>

namespace berth {
namespace {

TEST(Job, AbsenceNeedsACompleteAndLaterListing) {
  JobListing listing;
  listing.asked_at = from_ms(1000);
  listing.quality = JobListing::Quality::complete;
  EXPECT_TRUE(listing.absence_is_evidence(from_ms(999)));
  EXPECT_FALSE(listing.absence_is_evidence(from_ms(1000)));
  listing.quality = JobListing::Quality::partial;
  EXPECT_FALSE(listing.absence_is_evidence(from_ms(0)));
  listing.quality = JobListing::Quality::failed;
  EXPECT_FALSE(listing.absence_is_evidence(from_ms(0)));
}

TEST(Job, UnknownAndRequeuedAreNoEnds) {
  EXPECT_FALSE(is_ended(JobState::unknown));
  EXPECT_FALSE(is_ended(JobState::requeued));
  EXPECT_TRUE(is_ended(JobState::preempted));
}

}  // namespace
}  // namespace berth
