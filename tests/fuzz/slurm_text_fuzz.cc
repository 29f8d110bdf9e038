// Slurm's text, whatever it holds: nothing crashes, nothing unknown becomes an end or a number, and
// no answer that is not whole counts as complete.
//
// The first byte chooses the reader, the rest is its text.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/check.h"
#include "sched/job_script.h"
#include "sched/process_tree.h"
#include "sched/slurm_answer.h"
#include "sched/slurm_text.h"

namespace {

using namespace berth;         // NOLINT: a test program
using namespace berth::sched;  // NOLINT

constexpr std::string_view kNonce = "N9";

void values(std::string_view text) {
  SlurmState state = parse_slurm_state(text);
  if (state.cancelled_by_uid) CHECK(state.state == JobState::cancelled);
  if (is_ended(state.state)) CHECK(trim(text).size() >= 1);
  SlurmDuration duration = parse_slurm_duration(text);
  CHECK(duration.value.count() >= 0);
  if (duration.kind != SlurmDuration::Kind::known) CHECK(duration.value.count() == 0);
  if (duration.kind == SlurmDuration::Kind::known)
    CHECK(parse_slurm_duration(format_slurm_duration(duration.value)) == duration);
  if (auto time = parse_slurm_time(text)) CHECK(to_ms(*time) > 0);
  classify_pending(text);
  for (ExitCode code : {parse_exit_pair(text), parse_squeue_exit(text)}) {
    CHECK(!(code.status && code.signal));
    if (code.status) CHECK(*code.status >= 0 && *code.status <= 255);
    if (code.signal) CHECK(*code.signal > 0 && *code.signal <= 255);
  }
  if (auto job = parse_submitted(text)) CHECK(job->id > 0);
  if (auto process = parse_process_stat(text)) CHECK(process->pid >= 0);
  words_of(text);
}

void nodes(std::string_view text) {
  constexpr size_t kLimit = 500;
  if (auto names = expand_nodelist(text, kLimit)) {
    CHECK(names->size() <= kLimit);
    for (const std::string& name : *names) CHECK(!name.empty() && name.size() < 1000);
  }
  for (const auto& [name, address] : parse_node_addresses(text))
    CHECK(!name.empty() && !address.empty());
  config_value(text, "KillWait");
}

runtime::CommandResult answered(std::string_view text) {
  runtime::CommandResult result;
  // What is behind a 0x1d went to standard error.
  size_t error = text.find('\x1d');
  result.output = std::string(text.substr(0, error));
  if (error != std::string_view::npos) result.error_output = std::string(text.substr(error + 1));
  result.exit_status = 0;
  return result;
}

void queue(std::string_view text) {
  runtime::CommandResult result = answered(text);
  QueueAnswer answer = read_squeue(result, kNonce);
  for (const QueueRow& row : answer.rows) {
    CHECK(row.job.ref.id > 0);
    CHECK(row.job.restarts >= 0);
    end_from_queue(row.job.ref, answer.rows);
  }
  if (answer.quality == JobListing::Quality::complete) {
    CHECK(result.output.ends_with(">N9\n"));
    CHECK(answer.error.empty());
    // The same with a byte less, or killed, is not complete.
    runtime::CommandResult cut = result;
    cut.output.pop_back();
    CHECK(read_squeue(cut, kNonce).quality != JobListing::Quality::complete);
    result.exit_status.reset();
    result.signal = 9;
    CHECK(read_squeue(result, kNonce).quality != JobListing::Quality::complete);
  } else {
    CHECK(!answer.error.empty());
  }
}

void accounting(std::string_view text) {
  auto rows = read_sacct(answered(text), kNonce);
  if (!rows) return;
  for (const AccountingRow& row : *rows) {
    JobRef ref{row.id, "", row.submitted};
    if (auto end = end_from_accounting(ref, *rows)) {
      CHECK(is_ended(end->state));
      CHECK(end->ref.id == row.id);
    }
  }
}

void refusal(std::string_view text) {
  runtime::CommandResult result = answered(text);
  result.error_output = result.output;
  result.exit_status = 1;
  CHECK(!explain_sbatch_failure(result).message.empty());
}

void script(std::string_view text) {
  std::string clean = clean_setup(text);
  CHECK(clean.find('\r') == std::string::npos);
  CHECK(clean.empty() || clean.back() == '\n');
  std::string quoted = shell_quote(text);
  CHECK(quoted.find('\n') == std::string::npos && quoted.find('\r') == std::string::npos);
  JobScript job;
  job.key = "k";
  job.berth = "/b";
  job.engine_argv = {"e", std::string(text)};
  job.setup = std::string(text);
  job.env = {{"A", std::string(text)}};
  auto rendered = render_job_script(job);
  CHECK(rendered.ok() == (text.find('\0') == std::string_view::npos));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 6) {
    case 0:
      values(text);
      break;
    case 1:
      nodes(text);
      break;
    case 2:
      queue(text);
      break;
    case 3:
      accounting(text);
      break;
    case 4:
      refusal(text);
      break;
    case 5:
      script(text);
      break;
  }
  return 0;
}
