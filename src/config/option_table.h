// The declarations of the daemon's options: name, type, default, help, limits, effect.
//
// A new option is one entry in option_table.cc and one member of Config; parsing, checking and
// the reference follow. Constant data; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/time.h"
#include "config/config.h"

namespace berth::config {

enum class OptionType {
  text,
  path,     // made absolute: relative ones are taken from the state directory
  address,  // "host:port", "[::1]:port"; port 0 lets the system choose
  integer,
  boolean,
  duration,
  bytes,
  choice,
  texts,
};

enum class NeedsRestart { no, yes };  // no: a reload (SIGHUP) applies it
enum class Visibility { common, expert };

using OptionValue = std::variant<std::string, int64_t, bool, Duration, std::vector<std::string>>;

struct Option {
  std::string_view name;
  OptionType type;
  std::string_view fallback;  // the default, as one would write it
  std::string_view help;      // one or two sentences
  void (*set)(Config&, const OptionValue&);
  int64_t least = 0;  // integer, bytes; duration in milliseconds; inclusive
  int64_t most = INT64_MAX;
  std::vector<std::string> choices;
  NeedsRestart needs_restart = NeedsRestart::yes;
  Visibility visibility = Visibility::common;
};

// In the order of the reference.
const std::vector<Option>& options();
// nullptr when there is none of this name.
const Option* find_option(std::string_view name);

}  // namespace berth::config
