#include "runtime/timer.h"

#include <bit>

#include "runtime/loop.h"

namespace berth::runtime {

Timer*& TimerWheel::Head::prev_link() { return prev_; }
Timer*& TimerWheel::Head::next_link() { return next_; }

TimerWheel::TimerWheel(MonoTime start) : start_(start) {}

uint64_t TimerWheel::tick_of(MonoTime t) const {
  if (t <= start_) return 0;
  auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(t - start_).count();
  constexpr int64_t kTickNs = std::chrono::nanoseconds(kTick).count();
  return static_cast<uint64_t>((ns + kTickNs - 1) / kTickNs);
}

void Timer::arm(TimerWheel& wheel, MonoTime when) {
  uint64_t due = wheel.tick_of(when);
  if (due <= wheel.now_) due = wheel.now_ + 1;
  due_ = due;
  if (next_ && linked_ <= due) return;  // the wheel looks at it in time and hangs it on again
  unlink();
  wheel.link(*this, due);
}

void TimerWheel::link(Timer& timer, uint64_t due) {
  constexpr uint64_t kLast = (uint64_t{1} << (6 * kLevels)) - 1;
  if (due > kLast) due = kLast;
  int level = due == now_ ? 0 : (63 - std::countl_zero(due ^ now_)) / 6;
  CHECK(level < kLevels);
  int slot = static_cast<int>((due >> (6 * level)) & 63);
  Head& head = slots_[level][slot];
  timer.linked_ = due;
  timer.next_ = &head;
  timer.prev_ = head.prev_link();
  timer.prev_->next_ = &timer;
  head.prev_link() = &timer;
  occupied_[level] |= uint64_t{1} << slot;
}

bool TimerWheel::next_slot(int& level, int& slot, uint64_t& tick) const {
  for (int l = 0; l < kLevels; l++) {
    int digit = static_cast<int>((now_ >> (6 * l)) & 63);
    uint64_t ahead = occupied_[l] & (~uint64_t{0} << digit);
    if (!ahead) continue;
    level = l;
    slot = std::countr_zero(ahead);
    uint64_t upper = now_ >> (6 * l) >> 6;
    tick = ((upper << 6) | static_cast<uint64_t>(slot)) << (6 * l);
    if (tick < now_) tick = now_;
    return true;
  }
  return false;
}

void TimerWheel::run_slot(int level, int slot) {
  // Nothing is hung into this very slot meanwhile: what is due later differs from now_ in a digit.
  Head& head = slots_[level][slot];
  occupied_[level] &= ~(uint64_t{1} << slot);
  while (head.next_link() != &head) {
    Timer& timer = *head.next_link();
    timer.unlink();
    if (timer.due_ == Timer::kNever) continue;
    if (timer.due_ > now_) {
      link(timer, timer.due_);
    } else {
      timer.due_ = Timer::kNever;
      timer.fire();
    }
  }
}

void TimerWheel::advance(MonoTime now) {
  if (now < start_) return;
  constexpr int64_t kTickNs = std::chrono::nanoseconds(kTick).count();
  auto target = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now - start_).count() / kTickNs);
  int level = 0, slot = 0;
  uint64_t tick = 0;
  while (next_slot(level, slot, tick) && tick <= target) {
    now_ = tick;
    run_slot(level, slot);
  }
  if (now_ < target) now_ = target;
}

MonoTime TimerWheel::next_due() const {
  int level = 0, slot = 0;
  uint64_t tick = 0;
  if (!next_slot(level, slot, tick)) return MonoTime::max();
  return start_ + std::chrono::duration_cast<MonoTime::duration>(kTick) * tick;
}

void Deadline::set(MonoTime when) {
  expired_ = false;
  arm(loop_.timers(), when);
}

void Deadline::set_after(Duration d) {
  if (d.count() <= 0) {
    clear();
  } else {
    set(loop_.now() + d);
  }
}

void Deadline::fire() {
  expired_ = true;
  if (waiter_) loop_.wake(*waiter_);
}

}  // namespace berth::runtime
