// Result<T>: a value, or an Error that says what was tried, what came back and what to do.
//
// Expected failures (network, Slurm refused, bad input) are returned, never thrown. The answer
// "no, not yet" is not an error: it is a value in a report. Bugs are CHECKs.
//
// Result is a value: movable, and as thread-safe as T. Reading value() of a failed Result (or
// error() of a good one) is a bug and aborts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace berth {

// A code exists only where a caller branches on it; everything else is in the message.
enum class Code {
  invalid_argument,   // the caller's input is wrong; repeating it cannot help
  unauthenticated,    // no valid credential
  permission_denied,  // known caller, not allowed
  not_found,
  conflict,         // exists already, or a newer generation is there
  too_large,        // over a stated limit
  exhausted,        // a quota or submit limit says no for now
  unavailable,      // the peer is not there (refused, no route, closed)
  timeout,          // no answer within the stated deadline; nothing was done by it
  unknown_outcome,  // a mutation may or may not have happened
  cancelled,        // the caller went away
  internal,         // our own fault
};

std::string_view to_string(Code code);

// Whose fault it is, for messages and metrics.
enum class Source { caller, berth, scheduler, engine, peer, system };

std::string_view to_string(Source source);

// Whether repeating the same call may help.
enum class Retry { no, yes };

struct Error {
  Code code = Code::internal;
  std::string
      message;  // one sentence for a person: what was tried, on what, what came back, what to do
  Source source = Source::berth;
  Retry retry = Retry::no;

  // The same error with "context: " in front, as an error travels up.
  Error wrap(std::string_view context) const&;
  Error wrap(std::string_view context) &&;
};

Error invalid_argument(std::string message);
Error not_found(std::string message);
Error unavailable(std::string message, Source source);
Error timed_out(std::string message, Source source);
Error internal_error(std::string message);
// "what: strerror(errno_value)", Source::system.
Error system_error(std::string_view what, int errno_value);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    CHECK(ok());
    return std::get<0>(state_);
  }
  const T& value() const& {
    CHECK(ok());
    return std::get<0>(state_);
  }
  T&& value() && {
    CHECK(ok());
    return std::get<0>(std::move(state_));
  }
  const Error& error() const& {
    CHECK(!ok());
    return std::get<1>(state_);
  }
  Error&& error() && {
    CHECK(!ok());
    return std::get<1>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const& {
    CHECK(error_.has_value());
    return *error_;
  }
  Error&& error() && {
    CHECK(error_.has_value());
    return std::move(*error_);
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace berth
