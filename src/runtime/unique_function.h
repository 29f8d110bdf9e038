// A move-only std::function<R()>: what travels between loops and into the blocking pool.
//
// Calling an empty one is a bug and aborts. Cost: one allocation.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "base/check.h"

namespace berth::runtime {

template <class R>
class UniqueFunction {
 public:
  UniqueFunction() = default;
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, UniqueFunction>)
      UniqueFunction(F&& f)  // NOLINT: implicit, as std::function is
      : body_(std::make_unique<Holder<std::remove_cvref_t<F>>>(std::forward<F>(f))) {}

  explicit operator bool() const { return body_ != nullptr; }
  R operator()() {
    CHECK(body_ != nullptr);
    return body_->call();
  }

 private:
  struct Body {
    virtual ~Body() = default;
    virtual R call() = 0;
  };
  template <class F>
  struct Holder final : Body {
    explicit Holder(F f) : fn(std::move(f)) {}
    R call() override { return fn(); }
    F fn;
  };
  std::unique_ptr<Body> body_;
};

}  // namespace berth::runtime
