// Reads the values in Slurm's text: states, times, durations, reasons, exit codes, node lists.
//
// Written for what Slurm 22.05 to 24.11 print with LC_ALL=C, TZ=UTC0 and SLURM_TIME_FORMAT=%s.
// Pure functions of text. Nothing throws, whatever the input; what is not understood comes back
// as `unknown` or nullopt, never as zero, "none" or an end. Cost: linear in the text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "model/job.h"

namespace berth::sched {

std::string_view trim(std::string_view text);
bool contains(std::string_view text, std::string_view part);
// Splits at each `separator`; n separators give n + 1 pieces, empty ones included.
std::vector<std::string_view> split(std::string_view text, std::string_view separator);
// Decimal digits only, no sign, no overflow.
std::optional<uint64_t> parse_count(std::string_view text);

// A job's state: "RUNNING", "CANCELLED by 7001", "OUT_OF_ME+" (cut by a fixed width: a unique
// beginning), "CA". C01.
struct SlurmState {
  JobState state = JobState::unknown;
  std::optional<uint32_t> cancelled_by_uid;

  bool operator==(const SlurmState&) const = default;
};
SlurmState parse_slurm_state(std::string_view text);

// A point in time: seconds since 1970 (SLURM_TIME_FORMAT=%s) or "2026-11-30T18:04:26" taken as
// UTC. "Unknown", "None", "N/A", "NONE", "(null)", "0" and empty are absent. C13.
std::optional<Instant> parse_slurm_time(std::string_view text);

// A length of time. Unknown is neither zero nor unlimited. C13.
struct SlurmDuration {
  enum class Kind { known, unlimited, unknown };
  Kind kind = Kind::unknown;
  Duration value{};

  bool operator==(const SlurmDuration&) const = default;
};
// "M", "M:S", "H:M:S", "D-H", "D-H:M", "D-H:M:S", each with a fraction of the last part.
SlurmDuration parse_slurm_duration(std::string_view text);
// As sbatch's --time takes it, rounded up to whole seconds: "1-02:03:04".
std::string format_slurm_duration(Duration d);

// What a pending reason means for the one who waits; text as squeue or scontrol ('_' for ' ')
// prints it. Reasons that are not known wait. C15, C27.
PendingClass classify_pending(std::string_view reason);

// How a process ended.
struct ExitCode {
  std::optional<int> status;
  std::optional<int> signal;

  bool operator==(const ExitCode&) const = default;
};
// "143:0" or "0:11" as scontrol and sacct print it.
ExitCode parse_exit_pair(std::string_view text);
// The same from squeue, where it is the raw wait status (36608 is 143) or, in other versions, a
// pair.
ExitCode parse_squeue_exit(std::string_view text);
// sacct drops 128 from statuses of 128 and more: 143 reads 15:0 and 128 reads 0:0. A failed job
// with 0:0 therefore has an unknown status, not 0.
ExitCode correct_sacct_exit(ExitCode code, JobState state);

// "n[1-3,5],gpu01" to its names, in order. nullopt: not a node list, or more than `limit` names.
std::optional<std::vector<std::string>> expand_nodelist(std::string_view text,
                                                        size_t limit = 65536);

// Words of `scontrol show ... -o`: the value of the first "NAME=" at the beginning of a word.
// Free text may follow later in the line, so only fields that stand before it may be asked for.
std::optional<std::string_view> scontrol_field(std::string_view line, std::string_view name);
// Name and address of each node in the output of `scontrol show node -o`.
std::vector<std::pair<std::string, std::string>> parse_node_addresses(std::string_view output);
// "KEY = value" lines of `scontrol show config`.
std::optional<std::string> config_value(std::string_view output, std::string_view key);

// Whether Berth lets a job have this name: 1 to 64 of [A-Za-z0-9_.-].
bool is_job_name(std::string_view name);

}  // namespace berth::sched
