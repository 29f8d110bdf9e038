// Reads typed values out of a YamlNode; what is wrong goes to Problems, with its place and what
// is allowed, and reading goes on.
//
// Text is taken exactly as written, so a name may be `no` and an argument `1e3`. Numbers are plain
// decimal; octal, exponents and separators are refused with the way to write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "config/yaml.h"

namespace berth::config {

// Inclusive.
struct Range {
  int64_t least = 0;
  int64_t most = INT64_MAX;
};

class YamlReader {
 public:
  explicit YamlReader(Problems& problems) : problems_(problems) {}

  // All return nullopt after having added a problem. `what` names the member for people.
  std::optional<std::string> text(const YamlNode& node, std::string_view what);
  // Text that may be empty or null (a null is the text it was written as).
  std::optional<std::string> raw_text(const YamlNode& node, std::string_view what);
  std::optional<int64_t> integer(const YamlNode& node, std::string_view what, Range range);
  std::optional<bool> boolean(const YamlNode& node, std::string_view what);
  std::optional<Duration> duration(const YamlNode& node, std::string_view what, Duration least,
                                   Duration most);
  // A list of texts, or one text alone.
  std::optional<std::vector<std::string>> texts(const YamlNode& node, std::string_view what);
  std::optional<std::vector<std::string>> raw_texts(const YamlNode& node, std::string_view what);
  std::optional<std::string> one_of(const YamlNode& node, std::string_view what,
                                    const std::vector<std::string>& allowed);

  // False when it is no map. Unknown members are problems, with the nearest known name.
  bool members(const YamlNode& node, std::string_view what, const std::vector<std::string>& known);

 private:
  Problems& problems_;
};

// "[-]digits" without leading zeros; the reason why not in `why`.
std::optional<int64_t> parse_integer(std::string_view text, std::string& why);
// Bytes: "64MiB", "1GiB", "4096", "500k" (1024), as for configuration. nullopt when it is none.
std::optional<int64_t> parse_bytes(std::string_view text);
// Slurm's --mem: a number with K, M, G or T; without, MiB. In MiB, rounded up; nullopt when none.
std::optional<int64_t> parse_slurm_mem(std::string_view text);

}  // namespace berth::config
