#include "base/result.h"

#include <cstring>

namespace berth {

std::string_view to_string(Code code) {
  switch (code) {
    case Code::invalid_argument:
      return "invalid_argument";
    case Code::unauthenticated:
      return "unauthenticated";
    case Code::permission_denied:
      return "permission_denied";
    case Code::not_found:
      return "not_found";
    case Code::conflict:
      return "conflict";
    case Code::too_large:
      return "too_large";
    case Code::exhausted:
      return "exhausted";
    case Code::unavailable:
      return "unavailable";
    case Code::timeout:
      return "timeout";
    case Code::unknown_outcome:
      return "unknown_outcome";
    case Code::cancelled:
      return "cancelled";
    case Code::internal:
      return "internal";
  }
  return "internal";
}

std::string_view to_string(Source source) {
  switch (source) {
    case Source::caller:
      return "caller";
    case Source::berth:
      return "berth";
    case Source::scheduler:
      return "scheduler";
    case Source::engine:
      return "engine";
    case Source::peer:
      return "peer";
    case Source::system:
      return "system";
  }
  return "berth";
}

Error Error::wrap(std::string_view context) const& { return Error(*this).wrap(context); }

Error Error::wrap(std::string_view context) && {
  std::string text(context);
  text += ": ";
  text += message;
  return Error{code, std::move(text), source, retry};
}

Error invalid_argument(std::string message) {
  return Error{Code::invalid_argument, std::move(message), Source::caller, Retry::no};
}
Error not_found(std::string message) {
  return Error{Code::not_found, std::move(message), Source::caller, Retry::no};
}
Error unavailable(std::string message, Source source) {
  return Error{Code::unavailable, std::move(message), source, Retry::yes};
}
Error timed_out(std::string message, Source source) {
  return Error{Code::timeout, std::move(message), source, Retry::yes};
}
Error internal_error(std::string message) {
  return Error{Code::internal, std::move(message), Source::berth, Retry::no};
}
Error system_error(std::string_view what, int errno_value) {
  char buffer[128];
  std::string text(what);
  text += ": ";
  text += strerror_r(errno_value, buffer, sizeof buffer);
  return Error{Code::internal, std::move(text), Source::system, Retry::no};
}

}  // namespace berth
