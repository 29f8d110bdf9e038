// Reads whole answers of Slurm's commands, and tells a good answer from a broken one.
//
// Each question carries a nonce (random, new for each call) that ends every row, so that a row cut
// off is seen and no job's name, however hostile, can forge a row. squeue is asked for its header:
// it prints one only after slurmctld has answered, so that "no jobs" and "no answer" differ (C03).
// Pure. Nothing throws.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/job.h"
#include "runtime/command.h"
#include "sched/slurm_text.h"

namespace berth::sched {

// "30" or "30;lab" from sbatch --parsable. C09.
struct SubmittedJob {
  uint64_t id = 0;
  std::string cluster;

  bool operator==(const SubmittedJob&) const = default;
};
std::optional<SubmittedJob> parse_submitted(std::string_view output);

// Why sbatch gave no job id, in Slurm's words, with
//   unknown_outcome    the job may have been submitted (a timeout on the wire or of the command)
//   invalid_argument   it can never work as asked
//   exhausted          a submit limit (C17)
//   unavailable        slurmctld or the partition is not there now
Error explain_sbatch_failure(const runtime::CommandResult& result);

// The value of squeue's --Format for read_squeue.
std::string squeue_format(std::string_view nonce);

struct QueueRow {
  JobObserved job;
  uint32_t uid = 0;
  ExitCode exit;                    // of an ended job
  std::optional<Instant> end_time;  // of an ended job
};

struct QueueAnswer {
  JobListing::Quality quality = JobListing::Quality::failed;
  std::vector<QueueRow> rows;
  std::string error;
};
// Rows that are whole are kept whatever the quality.
QueueAnswer read_squeue(const runtime::CommandResult& result, std::string_view nonce);

// The value of sacct's --format and --delimiter for read_sacct. It is asked with -n -X -p -D.
std::string sacct_format();
std::string sacct_delimiter(std::string_view nonce);

struct AccountingRow {
  uint64_t id = 0;
  std::optional<Instant> submitted, started, ended;
  SlurmState state;
  std::string state_text;
  ExitCode exit;
  std::vector<std::string> nodes;
  std::string reason;
  std::string name;
};
// Rows in sacct's order: runs of a requeued job one after the other. An error when sacct failed or
// its output is cut.
Result<std::vector<AccountingRow>> read_sacct(const runtime::CommandResult& result,
                                              std::string_view nonce);

// How the job `ref` ended by these rows; nullopt when they do not show an end. A requeued job
// counts by its last run; rows of an older job with the same id are left out.
std::optional<JobEnd> end_from_accounting(const JobRef& ref,
                                          const std::vector<AccountingRow>& rows);
std::optional<JobEnd> end_from_queue(const JobRef& ref, const std::vector<QueueRow>& rows);
// Accounting knows who cancelled; slurmctld knows statuses of 128 and more.
JobEnd merge_ends(const JobEnd& from_queue, const JobEnd& from_accounting);

// A sentence for people about an end that Slurm tells only by a code, or "". `log_path` is the
// job's output file. A17: 0:53 is an output file that cannot be opened.
std::string explain_end(const JobEnd& end, std::string_view log_path);

// The first lines of what a command wrote on standard error, in one line, without "sbatch: error:
// ".
std::string words_of(std::string_view error_output);

}  // namespace berth::sched
