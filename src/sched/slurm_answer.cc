#include "sched/slurm_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace berth::sched {
namespace {

using Quality = JobListing::Quality;

constexpr std::string_view kSeparator = "\x1f";
constexpr std::string_view kRowEnd = ">";

// The order matters: what users can choose (account, name) comes last.
constexpr std::array<std::string_view, 14> kQueueFields = {
    "JobID",   "UserID",    "State",    "RestartCnt", "exit_code", "SubmitTime", "StartTime",
    "EndTime", "TimeLimit", "UserName", "Nodelist",   "Reason",    "Account",    "Name"};

constexpr std::array<std::string_view, 9> kAccountingFields = {
    "JobIDRaw", "Submit", "Start", "End", "State", "ExitCode", "NodeList", "Reason", "JobName"};

template <size_t N>
bool contains_any(std::string_view text, const std::array<std::string_view, N>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [text](std::string_view part) { return contains(text, part); });
}

// Splits into at most N fields; the last keeps whatever separators it has.
template <size_t N>
bool split_fields(std::string_view row, std::array<std::string_view, N>& fields) {
  for (size_t i = 0; i + 1 < N; ++i) {
    size_t at = row.find(kSeparator);
    if (at == std::string_view::npos) return false;
    fields[i] = row.substr(0, at);
    row.remove_prefix(at + kSeparator.size());
  }
  fields[N - 1] = row;
  return true;
}

std::string text_unless_null(std::string_view text) {
  text = trim(text);
  if (text == "(null)" || text == "N/A") return "";
  return std::string(text);
}

std::optional<QueueRow> read_queue_row(std::string_view text) {
  std::array<std::string_view, kQueueFields.size()> f;
  if (!split_fields(text, f)) return std::nullopt;
  auto id = parse_count(f[0]), uid = parse_count(f[1]), restarts = parse_count(f[3]);
  if (!id || *id == 0 || !uid || *uid > UINT32_MAX || f[2].empty()) return std::nullopt;
  QueueRow row;
  row.uid = static_cast<uint32_t>(*uid);
  row.exit = parse_squeue_exit(f[4]);
  JobObserved& job = row.job;
  job.ref.id = *id;
  job.ref.submit_time = parse_slurm_time(f[5]);
  job.state = parse_slurm_state(f[2]).state;
  job.state_text = std::string(f[2]);
  job.restarts = restarts ? static_cast<int>(std::min<uint64_t>(*restarts, 1 << 20)) : 0;
  auto start = parse_slurm_time(f[6]), end = parse_slurm_time(f[7]);
  bool waits = job.state == JobState::pending || job.state == JobState::requeued;
  (waits ? job.estimated_start : job.started_at) = start;
  if (is_ended(job.state) || job.state == JobState::completing)
    row.end_time = end;
  else if (!waits)
    job.ends_at = end;
  SlurmDuration limit = parse_slurm_duration(f[8]);
  if (limit.kind == SlurmDuration::Kind::known) job.time_limit = limit.value;
  job.user = std::string(f[9]);
  job.nodes = expand_nodelist(f[10]).value_or(std::vector<std::string>{});
  job.reason = text_unless_null(f[11]);
  if (waits) job.pending_class = classify_pending(f[11]);
  job.account = text_unless_null(f[12]);
  job.key = std::string(f[13]);
  return row;
}

bool is_queue_header(std::string_view text) {
  // With -M a line "CLUSTER: name" stands before it.
  size_t line = text.rfind('\n');
  if (line != std::string_view::npos) text.remove_prefix(line + 1);
  std::array<std::string_view, kQueueFields.size()> f;
  return split_fields(text, f) && f[0] == "JOBID" && f.back() == "NAME";
}

std::string outcome_and_words(std::string_view command, const runtime::CommandResult& result) {
  std::string words = words_of(result.error_output);
  std::string outcome = runtime::describe_outcome(result);
  if (words.empty()) return fmt::format("{}: {}", command, outcome);
  return fmt::format("{}: {} ({})", command, words, outcome);
}

}  // namespace

std::string words_of(std::string_view error_output) {
  std::string words;
  for (std::string_view line : split(error_output, "\n")) {
    line = trim(line);
    for (std::string_view prefix : {"sbatch: ", "squeue: ", "sacct: ", "scancel: ", "scontrol: ",
                                    "sinfo: ", "error: ", "fatal: "})
      if (line.starts_with(prefix)) line.remove_prefix(prefix.size());
    if (line.empty()) continue;
    if (!words.empty()) words += "; ";
    words += line;
    if (words.size() > 600) {
      words.resize(600);
      return words + "...";
    }
  }
  return words;
}

std::optional<SubmittedJob> parse_submitted(std::string_view output) {
  output = trim(output);
  // A site's cli_filter may print above it; the id is the last line.
  if (size_t line = output.rfind('\n'); line != std::string_view::npos)
    output.remove_prefix(line + 1);
  size_t semicolon = output.find(';');
  auto id = parse_count(trim(output.substr(0, semicolon)));
  if (!id || *id == 0) return std::nullopt;
  SubmittedJob job{*id, ""};
  if (semicolon != std::string_view::npos)
    job.cluster = std::string(trim(output.substr(semicolon + 1)));
  return job;
}

Error explain_sbatch_failure(const runtime::CommandResult& result) {
  // Only errors after which slurmctld may still have the request.
  static constexpr std::array<std::string_view, 8> kMaybe = {
      "Socket timed out",           "Zero Bytes were transmitted", "(send failure)",
      "(receive failure)",          "(shutdown failure)",          "Communication receive failure",
      "Communication send failure", "Connection reset by peer"};
  static constexpr std::array<std::string_view, 12> kAway = {
      "Unable to contact slurm controller (connect failure)",
      "Connection refused",
      "Communication connection failure",
      "standby mode",
      "Could not establish a configuration",
      "Unable to process configuration",
      "Protocol authentication error",
      "Invalid authentication credential",
      "Munge",
      "Required partition not available",
      "Required node not available",
      "temporarily unable to accept job"};
  static constexpr std::array<std::string_view, 24> kNever = {
      "Invalid partition name",
      "invalid partition specified",
      "Invalid account",
      "Invalid qos",
      "node configuration is not available",
      "generic resource",
      "Invalid node name",
      "Node count specification invalid",
      "Invalid feature specification",
      "Invalid license specification",
      "Requested reservation is invalid",
      "Job dependency problem",
      "Invalid job array",
      "time limit is invalid",
      "More processors requested than permitted",
      "Memory specification can not be satisfied",
      "Memory required by task is not available",
      "Access/permission denied",
      "not permitted to use this partition",
      "Invalid user id",
      "Batch script",
      "unrecognized option",
      "Invalid --",
      "Requested node config"};
  std::string words = outcome_and_words("sbatch", result);
  std::string_view said = result.error_output;
  auto error = [&words](Code code, Retry retry) {
    return Error{code, std::move(words), Source::scheduler, retry};
  };
  if (result.timed_out || !result.exit_status || *result.exit_status == 0)
    return error(Code::unknown_outcome, Retry::no);
  if (contains_any(said, kMaybe)) return error(Code::unknown_outcome, Retry::no);
  if (contains(said, "accounting/QOS policy")) {
    bool about_one_job = contains(said, "PerJob") || contains(said, "PerNode") ||
                         contains(said, "QOSMin") || contains(said, "MaxWall");
    if (about_one_job && !contains(said, "SubmitJob"))
      return error(Code::invalid_argument, Retry::no);
    return error(Code::exhausted, Retry::yes);
  }
  if (contains_any(said, kAway)) return error(Code::unavailable, Retry::yes);
  if (contains_any(said, kNever) || *result.exit_status == 255)
    return error(Code::invalid_argument, Retry::no);
  // slurmctld answered, with something not known here: it was not submitted, and may work later.
  if (contains(said, "Batch job submission failed")) return error(Code::unavailable, Retry::yes);
  return error(Code::unknown_outcome, Retry::no);
}

std::string squeue_format(std::string_view nonce) {
  std::string format;
  for (size_t i = 0; i < kQueueFields.size(); ++i) {
    bool last = i + 1 == kQueueFields.size();
    format += fmt::format("{}{}:{}", i ? "," : "", kQueueFields[i],
                          last ? fmt::format("{}{}", kRowEnd, nonce) : std::string(kSeparator));
  }
  return format;
}

QueueAnswer read_squeue(const runtime::CommandResult& result, std::string_view nonce) {
  QueueAnswer answer;
  std::string row_end = fmt::format("{}{}\n", kRowEnd, nonce);
  std::string_view text = result.output;
  size_t header_end = text.find(row_end);
  if (header_end == std::string_view::npos || !is_queue_header(text.substr(0, header_end))) {
    answer.error = outcome_and_words("squeue", result);
    if (result.exited(0))
      answer.error = fmt::format("{}, but no header in its output", answer.error);
    return answer;
  }
  answer.quality = Quality::complete;
  auto doubt = [&answer](std::string why) {
    answer.quality = Quality::partial;
    if (answer.error.empty()) answer.error = std::move(why);
  };
  text.remove_prefix(header_end + row_end.size());
  while (true) {
    size_t end = text.find(row_end);
    if (end == std::string_view::npos) break;
    if (auto row = read_queue_row(text.substr(0, end)))
      answer.rows.push_back(std::move(*row));
    else
      doubt("squeue: a row that cannot be read");
    text.remove_prefix(end + row_end.size());
  }
  if (!text.empty()) doubt("squeue: the output ends within a row");
  if (!result.exited(0)) doubt(outcome_and_words("squeue", result));
  if (result.truncated) doubt("squeue: more output than is read");
  // Errors beside rows (an unknown user, one of several clusters away) come with status 0.
  if (contains(result.error_output, "error") || contains(result.error_output, "fatal"))
    doubt(outcome_and_words("squeue", result));
  return answer;
}

std::string sacct_format() { return fmt::format("{}", fmt::join(kAccountingFields, ",")); }

std::string sacct_delimiter(std::string_view nonce) {
  return fmt::format("{}{}{}", kSeparator, nonce, kSeparator);
}

Result<std::vector<AccountingRow>> read_sacct(const runtime::CommandResult& result,
                                              std::string_view nonce) {
  auto fail = [&result](std::string_view what) {
    return Error{Code::unavailable, fmt::format("{}{}", outcome_and_words("sacct", result), what),
                 Source::scheduler, Retry::yes};
  };
  if (!result.exited(0) || contains(result.error_output, "error")) return fail("");
  if (result.truncated) return fail(", more output than is read");
  std::vector<std::string_view> pieces = split(result.output, sacct_delimiter(nonce));
  constexpr size_t kFields = kAccountingFields.size();
  // Each row ends with a delimiter and a line feed, so that one piece is left at the end.
  if (pieces.size() % kFields != 1 || !trim(pieces.back()).empty())
    return fail(", the output ends within a row");
  std::vector<AccountingRow> rows;
  for (size_t i = 0; i + kFields <= pieces.size(); i += kFields) {
    std::string_view id_text = pieces[i];
    if (i > 0) {
      if (!id_text.starts_with('\n')) return fail(", a row that cannot be read");
      id_text.remove_prefix(1);
    }
    auto id = parse_count(trim(id_text));
    if (!id || *id == 0) return fail(", a row that cannot be read");
    AccountingRow row;
    row.id = *id;
    row.submitted = parse_slurm_time(pieces[i + 1]);
    row.started = parse_slurm_time(pieces[i + 2]);
    row.ended = parse_slurm_time(pieces[i + 3]);
    row.state = parse_slurm_state(pieces[i + 4]);
    row.state_text = std::string(trim(pieces[i + 4]));
    row.exit = correct_sacct_exit(parse_exit_pair(pieces[i + 5]), row.state.state);
    row.nodes = expand_nodelist(pieces[i + 6]).value_or(std::vector<std::string>{});
    row.reason = std::string(trim(pieces[i + 7]));
    row.name = std::string(pieces[i + 8]);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::optional<JobEnd> end_from_accounting(const JobRef& ref,
                                          const std::vector<AccountingRow>& rows) {
  // The first row not older than our submit is ours; later ones of the same name are its further
  // runs. Without a submit time the last job of that id is meant.
  const AccountingRow* last = nullptr;
  const AccountingRow* first = nullptr;
  for (const AccountingRow& row : rows) {
    if (row.id != ref.id) continue;
    if (!ref.submit_time) {
      last = &row;
      continue;
    }
    if (!row.submitted || *row.submitted + seconds(1) < *ref.submit_time) continue;
    if (!first) first = &row;
    if (row.name == first->name) last = &row;
  }
  if (!last || !is_ended(last->state.state)) return std::nullopt;
  JobEnd end;
  end.ref = ref;
  end.ref.submit_time = last->submitted;
  end.key = last->name;
  end.state = last->state.state;
  end.state_text = last->state_text;
  end.cancelled_by_uid = last->state.cancelled_by_uid;
  end.started_at = last->started;
  end.ended_at = last->ended;  // absent while accounting lags: provisional (C05)
  end.nodes = last->nodes;
  end.reason = last->reason == "None" ? "" : last->reason;
  end.exit_code = last->exit.status;
  end.signal = last->exit.signal;
  return end;
}

std::optional<JobEnd> end_from_queue(const JobRef& ref, const std::vector<QueueRow>& rows) {
  for (const QueueRow& row : rows) {
    const JobObserved& job = row.job;
    if (job.ref.id != ref.id || !is_ended(job.state)) continue;
    if (ref.submit_time && job.ref.submit_time && *job.ref.submit_time < *ref.submit_time) continue;
    JobEnd end;
    end.ref = ref;
    if (job.ref.submit_time) end.ref.submit_time = job.ref.submit_time;
    end.key = job.key;
    end.state = job.state;
    end.state_text = job.state_text;
    end.exit_code = row.exit.status;
    end.signal = row.exit.signal;
    end.started_at = job.started_at;
    end.ended_at = row.end_time;
    end.nodes = job.nodes;
    end.reason = job.reason == "None" ? "" : job.reason;
    return end;
  }
  return std::nullopt;
}

JobEnd merge_ends(const JobEnd& from_queue, const JobEnd& from_accounting) {
  JobEnd end = from_queue;
  if (from_accounting.key != from_queue.key) return end;
  end.cancelled_by_uid = from_accounting.cancelled_by_uid;
  if (from_accounting.state == end.state) end.state_text = from_accounting.state_text;
  if (!end.ended_at) end.ended_at = from_accounting.ended_at;
  if (!end.started_at) end.started_at = from_accounting.started_at;
  if (!end.exit_code && !end.signal) {
    end.exit_code = from_accounting.exit_code;
    end.signal = from_accounting.signal;
  }
  if (end.nodes.empty()) end.nodes = from_accounting.nodes;
  if (end.reason.empty()) end.reason = from_accounting.reason;
  return end;
}

std::string explain_end(const JobEnd& end, std::string_view log_path) {
  if (end.state == JobState::failed && end.signal == 53)
    return fmt::format(
        "could not open output file {}: its folder must exist on the node and be writable by the "
        "job's user",
        log_path);
  if (end.state == JobState::out_of_memory)
    return "the job used more memory than it asked for (slurm.mem)";
  if (end.state == JobState::cancelled && end.cancelled_by_uid)
    return fmt::format("cancelled by user id {}", *end.cancelled_by_uid);
  if (end.state == JobState::failed && end.reason == "JobLaunchFailure" && !end.signal)
    return "Slurm could not launch the job's script; see the node's slurmd log";
  return "";
}

}  // namespace berth::sched
