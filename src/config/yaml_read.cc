#include "config/yaml_read.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/nearest.h"

namespace berth::config {
namespace {

std::string_view kind_name(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "nothing";
    case YamlNode::Kind::scalar:
      return "text";
    case YamlNode::Kind::list:
      return "a list";
    case YamlNode::Kind::map:
      return "members";
  }
  return "nothing";
}

std::string shown(std::string_view text) {
  std::string out(text.substr(0, 60));
  if (text.size() > 60) out += "...";
  return out;
}

// A number and what follows it; nullopt when there is no number or it is too large.
std::optional<std::pair<int64_t, std::string_view>> number_and_unit(std::string_view text) {
  int64_t n = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || n < 0 || text.empty() || text[0] == '-') return std::nullopt;
  return std::pair(n, text.substr(end - text.data()));
}

std::optional<int64_t> times(int64_t n, int64_t factor) {
  if (n > INT64_MAX / 4 / factor) return std::nullopt;
  return n * factor;
}

}  // namespace

std::optional<int64_t> parse_integer(std::string_view text, std::string& why) {
  std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  bool all = !digits.empty() &&
             std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!all) {
    why = "must be a whole decimal number";
    return std::nullopt;
  }
  if (digits.size() > 1 && digits[0] == '0') {
    why = "must not begin with 0 (some readers take that for octal)";
    return std::nullopt;
  }
  int64_t n = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc()) {
    why = "is too large";
    return std::nullopt;
  }
  return n;
}

std::optional<int64_t> parse_bytes(std::string_view text) {
  auto parsed = number_and_unit(text);
  if (!parsed) return std::nullopt;
  auto [n, unit] = *parsed;
  std::string u;
  for (char c : unit) u += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (u.empty() || u == "b") return n;
  if (u == "k" || u == "kib") return times(n, int64_t{1} << 10);
  if (u == "m" || u == "mib") return times(n, int64_t{1} << 20);
  if (u == "g" || u == "gib") return times(n, int64_t{1} << 30);
  return std::nullopt;
}

std::optional<int64_t> parse_slurm_mem(std::string_view text) {
  auto parsed = number_and_unit(text);
  if (!parsed) return std::nullopt;
  auto [n, unit] = *parsed;
  if (unit.size() > 1 && (unit.substr(1) == "B" || unit.substr(1) == "iB"))
    unit = unit.substr(0, 1);
  if (unit.empty() || unit == "M" || unit == "m") return n;
  if (unit == "K" || unit == "k") return n / 1024 + (n % 1024 != 0);
  if (unit == "G" || unit == "g") return times(n, 1024);
  if (unit == "T" || unit == "t") return times(n, int64_t{1} << 20);
  return std::nullopt;
}

std::optional<std::string> YamlReader::raw_text(const YamlNode& node, std::string_view what) {
  if (node.text.find('\0') != std::string::npos) {
    problems_.add(node.mark, fmt::format("{} must not hold a NUL character", what));
    return std::nullopt;
  }
  if (node.kind == YamlNode::Kind::scalar || node.kind == YamlNode::Kind::null) return node.text;
  problems_.add(node.mark, fmt::format("{} must be text, not {}", what, kind_name(node)));
  return std::nullopt;
}

std::optional<std::string> YamlReader::text(const YamlNode& node, std::string_view what) {
  auto out = raw_text(node, what);
  if (!out) return std::nullopt;
  if (out->empty()) {
    problems_.add(node.mark, fmt::format("{} must not be empty", what));
    return std::nullopt;
  }
  return out;
}

std::optional<int64_t> YamlReader::integer(const YamlNode& node, std::string_view what,
                                           Range range) {
  auto written = text(node, what);
  if (!written) return std::nullopt;
  std::string why;
  auto n = parse_integer(*written, why);
  if (n && *n >= range.least && *n <= range.most) return n;
  if (n)
    why = range.most == INT64_MAX
              ? fmt::format("must be at least {}", range.least)
              : fmt::format("must be between {} and {}", range.least, range.most);
  problems_.add(node.mark, fmt::format("{} {}, not \"{}\"", what, why, shown(*written)));
  return std::nullopt;
}

std::optional<bool> YamlReader::boolean(const YamlNode& node, std::string_view what) {
  auto written = text(node, what);
  if (!written) return std::nullopt;
  if (*written == "true") return true;
  if (*written == "false") return false;
  problems_.add(node.mark,
                fmt::format("{} must be true or false, not \"{}\"", what, shown(*written)));
  return std::nullopt;
}

std::optional<Duration> YamlReader::duration(const YamlNode& node, std::string_view what,
                                             Duration least, Duration most) {
  auto written = text(node, what);
  if (!written) return std::nullopt;
  auto d = parse_duration(*written);
  if (d && *d >= least && *d <= most) return d;
  if (d)
    problems_.add(node.mark, fmt::format("{} must be between {} and {}, not {}", what,
                                         to_human(least), to_human(most), shown(*written)));
  else
    problems_.add(node.mark,
                  fmt::format("{} must be a time such as 90s, 30m, 8h, 8:00:00 or 1-12:00:00, "
                              "not \"{}\"",
                              what, shown(*written)));
  return std::nullopt;
}

std::optional<std::vector<std::string>> YamlReader::raw_texts(const YamlNode& node,
                                                              std::string_view what) {
  if (node.kind != YamlNode::Kind::list) {
    auto one = raw_text(node, what);
    if (!one) return std::nullopt;
    return std::vector<std::string>{*one};
  }
  std::vector<std::string> out;
  bool good = true;
  for (const YamlNode& item : node.items) {
    auto one = raw_text(item, fmt::format("each of {}", what));
    if (one)
      out.push_back(std::move(*one));
    else
      good = false;
  }
  if (!good) return std::nullopt;
  return out;
}

std::optional<std::vector<std::string>> YamlReader::texts(const YamlNode& node,
                                                          std::string_view what) {
  auto out = raw_texts(node, what);
  if (!out) return std::nullopt;
  for (size_t i = 0; i < out->size(); ++i) {
    if (!(*out)[i].empty()) continue;
    Mark mark = node.kind == YamlNode::Kind::list ? node.items[i].mark : node.mark;
    problems_.add(mark, fmt::format("{} must not be empty", what));
    return std::nullopt;
  }
  return out;
}

std::optional<std::string> YamlReader::one_of(const YamlNode& node, std::string_view what,
                                              const std::vector<std::string>& allowed) {
  auto written = text(node, what);
  if (!written) return std::nullopt;
  if (std::find(allowed.begin(), allowed.end(), *written) != allowed.end()) return written;
  problems_.add(node.mark,
                fmt::format("{} must be one of {}, not \"{}\"{}", what, fmt::join(allowed, ", "),
                            shown(*written), did_you_mean(*written, allowed)));
  return std::nullopt;
}

bool YamlReader::members(const YamlNode& node, std::string_view what,
                         const std::vector<std::string>& known) {
  if (node.kind != YamlNode::Kind::map) {
    problems_.add(node.mark,
                  fmt::format("{} must have members (name: value), not {}", what, kind_name(node)));
    return false;
  }
  for (const auto& [key, value] : node.members) {
    if (std::find(known.begin(), known.end(), key.text) != known.end()) continue;
    if (key.text == "<<") {
      problems_.add(key.mark, "merge keys (<<) are not supported; repeat the members");
      continue;
    }
    std::string hint = did_you_mean(key.text, known);
    if (hint.empty()) hint = fmt::format("; known: {}", fmt::join(known, ", "));
    problems_.add(key.mark,
                  fmt::format("unknown member \"{}\" of {}{}", shown(key.text), what, hint));
  }
  return true;
}

}  // namespace berth::config
