#include "runtime/signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace berth::runtime {
namespace {
Task<int> one_signal(Signals& signals) { co_return co_await signals.next(); }

TEST(Signals, ArriveInTheLoop) {
  Loop loop;
  Signals signals(loop, {SIGUSR1});
  kill(getpid(), SIGUSR1);
  EXPECT_EQ(loop.run_until(one_signal(signals)), SIGUSR1);
}

}  // namespace
}  // namespace berth::runtime
