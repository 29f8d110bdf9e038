#include "sched/slurm_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace berth::sched {
namespace {

constexpr uint64_t kLongest = uint64_t{1000} * 366 * 86400;  // seconds; anything longer is no time

struct StateName {
  std::string_view name, code;
  JobState state;
};

// From slurm.h's names, 22.05 to 24.11. Signalling and resizing jobs run; held ones wait.
constexpr std::array kStates = {
    StateName{"PENDING", "PD", JobState::pending},
    StateName{"RUNNING", "R", JobState::running},
    StateName{"SUSPENDED", "S", JobState::suspended},
    StateName{"COMPLETED", "CD", JobState::completed},
    StateName{"CANCELLED", "CA", JobState::cancelled},
    StateName{"FAILED", "F", JobState::failed},
    StateName{"TIMEOUT", "TO", JobState::timed_out},
    StateName{"NODE_FAIL", "NF", JobState::node_failed},
    StateName{"PREEMPTED", "PR", JobState::preempted},
    StateName{"BOOT_FAIL", "BF", JobState::node_failed},
    StateName{"DEADLINE", "DL", JobState::deadline},
    StateName{"OUT_OF_MEMORY", "OOM", JobState::out_of_memory},
    StateName{"CONFIGURING", "CF", JobState::configuring},
    StateName{"POWER_UP_NODE", "PN", JobState::configuring},
    StateName{"COMPLETING", "CG", JobState::completing},
    StateName{"STAGE_OUT", "SO", JobState::completing},
    StateName{"RESIZING", "RS", JobState::running},
    StateName{"SIGNALING", "SI", JobState::running},
    StateName{"STOPPED", "ST", JobState::suspended},
    StateName{"REQUEUED", "RQ", JobState::requeued},
    StateName{"REQUEUE_FED", "RF", JobState::pending},
    StateName{"REQUEUE_HOLD", "RH", JobState::pending},
    StateName{"RESV_DEL_HOLD", "RD", JobState::pending},
    StateName{"SPECIAL_EXIT", "SE", JobState::pending},
    StateName{"UPDATE_DB", "UD", JobState::completing},
    StateName{"REVOKED", "RV", JobState::cancelled},
    StateName{"LAUNCH_FAILED", "LF", JobState::failed},
    StateName{"RECONFIG_FAIL", "RE", JobState::failed},
};

JobState state_of_name(std::string_view name) {
  for (const StateName& known : kStates)
    if (name == known.name || name == known.code) return known.state;
  return JobState::unknown;
}

// What was cut off with a '+': the beginning must fit one meaning only.
JobState state_of_beginning(std::string_view beginning) {
  JobState found = JobState::unknown;
  if (beginning.size() < 3) return found;
  for (const StateName& known : kStates) {
    if (!known.name.starts_with(beginning)) continue;
    if (found != JobState::unknown && found != known.state) return JobState::unknown;
    found = known.state;
  }
  return found;
}

bool is_absent(std::string_view text) {
  return text.empty() || text == "Unknown" || text == "None" || text == "N/A" || text == "NONE" ||
         text == "(null)";
}

// Reads a number of exactly `width` digits at the front, then `after` (0: the end or anything).
std::optional<int> take_digits(std::string_view& text, size_t width, char after) {
  if (text.size() < width) return std::nullopt;
  auto n = parse_count(text.substr(0, width));
  if (!n) return std::nullopt;
  text.remove_prefix(width);
  if (after != 0) {
    if (text.empty() || text[0] != after) return std::nullopt;
    text.remove_prefix(1);
  }
  return static_cast<int>(*n);
}

}  // namespace

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    size_t at = separator.empty() ? std::string_view::npos : text.find(separator);
    pieces.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return pieces;
    text.remove_prefix(at + separator.size());
  }
}

std::optional<uint64_t> parse_count(std::string_view text) {
  uint64_t n = 0;
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

SlurmState parse_slurm_state(std::string_view text) {
  text = trim(text);
  SlurmState result;
  constexpr std::string_view kBy = " by ";
  if (size_t by = text.find(kBy); by != std::string_view::npos) {
    if (auto uid = parse_count(trim(text.substr(by + kBy.size()))); uid && *uid <= UINT32_MAX)
      result.cancelled_by_uid = static_cast<uint32_t>(*uid);
    text = trim(text.substr(0, by));
  }
  if (text.ends_with('+')) {
    text.remove_suffix(1);
    result.state = state_of_name(text);
    if (result.state == JobState::unknown) result.state = state_of_beginning(text);
  } else {
    result.state = state_of_name(text);
  }
  if (result.state != JobState::cancelled) result.cancelled_by_uid.reset();
  return result;
}

std::optional<Instant> parse_slurm_time(std::string_view text) {
  text = trim(text);
  if (is_absent(text)) return std::nullopt;
  if (auto epoch = parse_count(text)) {
    // Slurm's "infinite" and "no value" are just below 2^32 and 2^64.
    if (*epoch == 0 || *epoch >= 0xfffffff0u) return std::nullopt;
    return from_ms(static_cast<int64_t>(*epoch) * 1000);
  }
  auto year = take_digits(text, 4, '-');
  auto month = year ? take_digits(text, 2, '-') : std::nullopt;
  auto day = month ? take_digits(text, 2, 'T') : std::nullopt;
  auto hour = day ? take_digits(text, 2, ':') : std::nullopt;
  auto minute = hour ? take_digits(text, 2, ':') : std::nullopt;
  auto second = minute ? take_digits(text, 2, 0) : std::nullopt;
  if (!second || !text.empty() || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  std::chrono::year_month_day date{std::chrono::year(*year),
                                   std::chrono::month(static_cast<unsigned>(*month)),
                                   std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *year < 1970) return std::nullopt;
  Instant time = std::chrono::sys_days(date) + hours(*hour) + minutes(*minute) + seconds(*second);
  if (to_ms(time) == 0) return std::nullopt;
  return time;
}

SlurmDuration parse_slurm_duration(std::string_view text) {
  using Kind = SlurmDuration::Kind;
  text = trim(text);
  if (text == "UNLIMITED" || text == "INFINITE" || text == "infinite" || text == "unlimited")
    return {Kind::unlimited, Duration{}};
  uint64_t days = 0;
  bool with_days = false;
  if (size_t dash = text.find('-'); dash != std::string_view::npos) {
    auto n = parse_count(text.substr(0, dash));
    if (!n || *n > kLongest / 86400) return {};
    days = *n;
    with_days = true;
    text.remove_prefix(dash + 1);
  }
  if (size_t dot = text.find('.'); dot != std::string_view::npos) {
    if (!parse_count(text.substr(dot + 1)) && text.size() - dot < 20) return {};
    text = text.substr(0, dot);
  }
  std::vector<std::string_view> parts = split(text, ":");
  std::array<uint64_t, 3> n{};
  if (parts.size() > 3) return {};
  for (size_t i = 0; i < parts.size(); ++i) {
    auto value = parse_count(parts[i]);
    if (!value || *value > kLongest) return {};
    n[i] = *value;
  }
  uint64_t total = days * 86400;
  if (with_days || parts.size() == 3)
    total += n[0] * 3600 + n[1] * 60 + n[2];
  else
    total += n[0] * 60 + n[1];  // minutes, and seconds if given
  if (total > kLongest) return {};
  return {Kind::known, seconds(static_cast<int64_t>(total))};
}

std::string format_slurm_duration(Duration d) {
  int64_t s = std::max<int64_t>(0, (d.count() + 999) / 1000);
  return fmt::format("{}-{:02}:{:02}:{:02}", s / 86400, s / 3600 % 24, s / 60 % 60, s % 60);
}

PendingClass classify_pending(std::string_view text) {
  std::string reason(trim(text));
  std::replace(reason.begin(), reason.end(), '_', ' ');
  auto is = [&reason](std::initializer_list<std::string_view> names) {
    return std::any_of(names.begin(), names.end(),
                       [&reason](std::string_view name) { return reason == name; });
  };
  if (is({"PartitionConfig", "PartitionTimeLimit", "PartitionNodeLimit", "BadConstraints",
          "DependencyNeverSatisfied", "InvalidAccount", "InvalidQOS", "AccountNotAllowed",
          "QOSNotAllowed", "DeadLine", "QOSTimeLimit", "AssociationTimeLimit",
          "AssociationResourceLimit", "QOSResourceLimit"}))
    return PendingClass::never;
  // Limits on one job: AssocMaxWallDurationPerJobLimit, QOSMaxGRESPerJob, QOSMinGRES, ...
  bool limit = reason.starts_with("QOS") || reason.starts_with("Assoc");
  if (limit && (contains(reason, "PerJob") || contains(reason, "PerNode") ||
                contains(reason, "MaxMemPer") || contains(reason, "QOSMin")))
    return PendingClass::never;
  // A used-up budget of minutes: somebody has to raise it.
  if (limit && (contains(reason, "Minutes") || contains(reason, "Billing")))
    return PendingClass::needs_admin;
  if (reason.starts_with("ReqNodeNotAvail"))
    return contains(reason, "reserved for other job") ? PendingClass::waiting
                                                      : PendingClass::needs_admin;
  if (is({"PartitionDown", "PartitionInactive", "NodeDown", "FrontEndDown", "JobHeldUser",
          "JobHeldAdmin", "ReservationDeleted", "JobLaunchFailure", "BadNode", "SystemFailure"}) ||
      reason.starts_with("launch failed requeued held") ||
      reason.starts_with("job requeued in held state") ||
      reason.starts_with("Nodes required for job are DOWN"))
    return PendingClass::needs_admin;
  return PendingClass::waiting;
}

ExitCode parse_exit_pair(std::string_view text) {
  text = trim(text);
  size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {};
  auto status = parse_count(text.substr(0, colon)), signal = parse_count(text.substr(colon + 1));
  if (!status || !signal || *status > 255 || *signal > 255) return {};
  if (*signal != 0) return {std::nullopt, static_cast<int>(*signal)};
  return {static_cast<int>(*status), std::nullopt};
}

ExitCode parse_squeue_exit(std::string_view text) {
  text = trim(text);
  if (contains(text, ":")) return parse_exit_pair(text);
  auto raw = parse_count(text);
  if (!raw || *raw > 0xffff) return {};
  int signal = static_cast<int>(*raw & 0x7f);
  if (signal != 0) return {std::nullopt, signal};
  return {static_cast<int>(*raw >> 8), std::nullopt};
}

ExitCode correct_sacct_exit(ExitCode code, JobState state) {
  if (state == JobState::failed && code.status == 0) return {};
  return code;
}

namespace {

struct Expansion {
  std::vector<std::string> names;
  size_t limit;

  // Appends prefix + each number of one "[...]" group, then the rest of the entry.
  bool expand(std::string prefix, std::string_view rest) {
    constexpr size_t kLongestName = 256;
    if (prefix.size() + std::min(rest.size(), rest.find('[')) > kLongestName) return false;
    size_t open = rest.find('[');
    if (open == std::string_view::npos) {
      if (contains(rest, "]")) return false;
      prefix += rest;
      if (prefix.empty() || names.size() >= limit) return false;
      names.push_back(std::move(prefix));
      return true;
    }
    size_t close = rest.find(']', open);
    if (close == std::string_view::npos) return false;
    prefix += rest.substr(0, open);
    std::string_view after = rest.substr(close + 1);
    for (std::string_view item : split(rest.substr(open + 1, close - open - 1), ","))
      if (!expand_item(prefix, item, after)) return false;
    return true;
  }

  bool expand_item(const std::string& prefix, std::string_view item, std::string_view after) {
    size_t dash = item.find('-');
    std::string_view low = item.substr(0, dash);
    std::string_view high = dash == std::string_view::npos ? low : item.substr(dash + 1);
    auto from = parse_count(low), to = parse_count(high);
    if (!from || !to || *to < *from || *to - *from >= limit || low.size() > 18) return false;
    for (uint64_t i = *from; i <= *to; ++i)
      if (!expand(fmt::format("{}{:0{}}", prefix, i, low.size()), after)) return false;
    return true;
  }
};

// Commas inside brackets belong to the entry.
std::vector<std::string_view> split_entries(std::string_view text) {
  std::vector<std::string_view> entries;
  size_t start = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      entries.push_back(text.substr(start, i - start));
      start = i + 1;
    } else if (text[i] == '[') {
      ++depth;
    } else if (text[i] == ']') {
      --depth;
    }
  }
  return entries;
}

}  // namespace

std::optional<std::vector<std::string>> expand_nodelist(std::string_view text, size_t limit) {
  text = trim(text);
  if (text.empty() || text == "(null)" || text == "None assigned" || text == "None" ||
      text == "N/A")
    return std::vector<std::string>{};
  if (text.size() > 65536 || text.find_first_of(" \t\r\n") != std::string_view::npos ||
      std::count(text.begin(), text.end(), '[') > 4096)
    return std::nullopt;
  Expansion expansion{{}, limit};
  for (std::string_view entry : split_entries(text)) {
    // Slurm's names have a few dimensions at most; more brackets are somebody's joke.
    if (std::count(entry.begin(), entry.end(), '[') > 5 || !expansion.expand("", entry))
      return std::nullopt;
  }
  return std::move(expansion.names);
}

std::optional<std::string_view> scontrol_field(std::string_view line, std::string_view name) {
  size_t at = 0;
  while (at < line.size()) {
    size_t end = std::min(line.find(' ', at), line.size());
    std::string_view word = line.substr(at, end - at);
    if (word.size() > name.size() && word[name.size()] == '=' && word.starts_with(name))
      return word.substr(name.size() + 1);
    at = end + 1;
  }
  return std::nullopt;
}

std::vector<std::pair<std::string, std::string>> parse_node_addresses(std::string_view output) {
  std::vector<std::pair<std::string, std::string>> nodes;
  for (std::string_view line : split(output, "\n")) {
    if (!line.starts_with("NodeName=")) continue;
    auto name = scontrol_field(line, "NodeName"), address = scontrol_field(line, "NodeAddr");
    if (name && address && !name->empty() && !address->empty()) nodes.emplace_back(*name, *address);
  }
  return nodes;
}

std::optional<std::string> config_value(std::string_view output, std::string_view key) {
  for (std::string_view line : split(output, "\n")) {
    size_t equals = line.find('=');
    if (equals == std::string_view::npos || trim(line.substr(0, equals)) != key) continue;
    return std::string(trim(line.substr(equals + 1)));
  }
  return std::nullopt;
}

bool is_job_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

}  // namespace berth::sched
