#include "store/memory_store.h"

#include <gtest/gtest.h>

namespace berth::store {
namespace {

// What every store must do is in tests/contract/store_contract_test.cc.
TEST(MemoryStore, FailsAsOftenAsAskedAndThenGoesOn) {
  MemoryStore store;
  store.fail_next(2, unavailable("disk full", Source::system));
  Change change;
  EventRecord event;
  event.service = "alice/m";
  change.events = {event};
  EXPECT_FALSE(store.commit(change).ok());
  EXPECT_FALSE(store.commit(change).ok());
  EXPECT_TRUE(store.commit(change).ok());
  EXPECT_EQ(store.events("alice/m", 10)->size(), 1u);
}

}  // namespace
}  // namespace berth::store
