// Timers: a hierarchical wheel on the monotonic clock, without system calls.
//
// MonoTime counts on CLOCK_MONOTONIC. The wheel's tick is 4 ms; a timer fires up to one tick
// (plus the loop's delay) after its time, never before it.
//
// Timer: a callback at a time. Arming a later time on an armed timer is one store (the wheel
// looks again when the old time comes); so is disarming. Destroying a timer unhooks it.
// Deadline: a Timer that a wait can be given; it wakes whoever waits with it.
// sleep_for(loop, d): co_await it.
//
// Threading: the loop's thread. Cost: arm and fire O(1); no allocation.
#pragma once

#include <array>
#include <chrono>
#include <coroutine>
#include <cstdint>

#include "base/check.h"
#include "base/time.h"
#include "runtime/waiter.h"

namespace berth::runtime {

using MonoTime = std::chrono::steady_clock::time_point;

class Loop;
class TimerWheel;

class Timer {
 public:
  Timer() = default;
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  virtual ~Timer() { unlink(); }

  void arm(TimerWheel& wheel, MonoTime when);
  void disarm() { due_ = kNever; }
  bool armed() const { return due_ != kNever; }

 protected:
  virtual void fire() = 0;

 private:
  friend class TimerWheel;
  static constexpr uint64_t kNever = ~uint64_t{0};
  void unlink() {
    if (!next_) return;
    prev_->next_ = next_;
    next_->prev_ = prev_;
    next_ = prev_ = nullptr;
  }
  uint64_t due_ = kNever;     // tick asked for
  uint64_t linked_ = kNever;  // tick under which it hangs in the wheel; never after due_
  Timer* prev_ = nullptr;
  Timer* next_ = nullptr;
};

class TimerWheel {
 public:
  static constexpr auto kTick = std::chrono::milliseconds(4);

  explicit TimerWheel(MonoTime start);
  // Fires everything due at `now`.
  void advance(MonoTime now);
  // When advance() has something to do next; MonoTime::max(): nothing is armed.
  MonoTime next_due() const;

 private:
  friend class Timer;
  static constexpr int kLevels = 6;  // 64^6 ticks: 8.7 years; nothing is armed further ahead
  struct Head final : Timer {
    Head() { prev_link() = next_link() = this; }
    void fire() override {}
    Timer*& prev_link();
    Timer*& next_link();
  };

  uint64_t tick_of(MonoTime t) const;  // rounded up
  void link(Timer& timer, uint64_t due);
  bool next_slot(int& level, int& slot, uint64_t& tick) const;
  void run_slot(int level, int slot);

  MonoTime start_;
  uint64_t now_ = 0;
  std::array<uint64_t, kLevels> occupied_{};
  std::array<std::array<Head, 64>, kLevels> slots_;
};

class Deadline final : public Timer {
 public:
  explicit Deadline(Loop& loop) : loop_(loop) {}

  void set(MonoTime when);
  // From the loop's now. Zero or less means "no limit".
  void set_after(Duration d);
  void clear() {
    expired_ = false;
    disarm();
  }
  bool expired() const { return expired_; }

  // For awaitables: who is to be woken.
  void attach(Waiter& waiter) { waiter_ = &waiter; }
  void detach() { waiter_ = nullptr; }

 private:
  void fire() override;
  Loop& loop_;
  Waiter* waiter_ = nullptr;
  bool expired_ = false;
};

class Sleep final : public Waiter {
 public:
  Sleep(Loop& loop, Duration d) : deadline_(loop) {
    if (d.count() > 0) {
      deadline_.set_after(d);
    } else {
      ready_ = true;
    }
  }
  bool await_ready() const { return ready_; }
  void await_suspend(std::coroutine_handle<> h) {
    handle_ = h;
    deadline_.attach(*this);
  }
  void await_resume() const {}

 private:
  Deadline deadline_;
  bool ready_ = false;
};

inline Sleep sleep_for(Loop& loop, Duration d) { return Sleep(loop, d); }

}  // namespace berth::runtime
