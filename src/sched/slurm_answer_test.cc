#include "sched/slurm_answer.h"

#include <gtest/gtest.h>

namespace berth::sched {
namespace {

using Quality = JobListing::Quality;

constexpr const char* kNonce = "N9a2";

runtime::CommandResult said(std::string output, std::string error = "", int status = 0) {
  runtime::CommandResult result;
  result.exit_status = status;
  result.output = std::move(output);
  result.error_output = std::move(error);
  return result;
}

// Fields separated by '^' become a row as squeue prints it.
std::string row(std::string text) {
  for (char& c : text)
    if (c == '^') c = '\x1f';
  return text + ">" + kNonce + "\n";
}

const std::string kHeader =
    row("JOBID^UID^STATE^RESTART_COUNT^EXIT_CODE^SUBMIT_TIME^START_TIME^END_TIME^TIME_LIMIT^USER^"
        "NODELIST^REASON^ACCOUNT^NAME");
const std::string kRunning =
    row("6^7001^RUNNING^1^0^1796067946^1796067947^1796068547^10:00^alice^h100n[1-2]^None^gaia^"
        "berth-00000000000000aa");
const std::string kPending =
    row("5^7001^PENDING^0^0^1796067946^N/A^N/A^1-00:00:00^alice^^ReqNodeNotAvail, "
        "UnavailableNodes:n2^gaia^berth-00000000000000bb");

TEST(SlurmAnswer, Submitted) {  // C09
  EXPECT_EQ(parse_submitted("30;lab\n"), (SubmittedJob{30, "lab"}));
  EXPECT_EQ(parse_submitted("30\n"), (SubmittedJob{30, ""}));
  EXPECT_EQ(parse_submitted("notice by a site's filter\n31\n"), (SubmittedJob{31, ""}));
  for (const char* bad : {"", "\n", "Submitted batch job 31 on cluster lab", "0", "-3", "lab;30",
                          "99999999999999999999"})
    EXPECT_EQ(parse_submitted(bad), std::nullopt) << bad;
}

TEST(SlurmAnswer, ReadsRows) {
  QueueAnswer answer = read_squeue(said(kHeader + kRunning + kPending), kNonce);
  EXPECT_EQ(answer.quality, Quality::complete) << answer.error;
  ASSERT_EQ(answer.rows.size(), 2u);
  const JobObserved& running = answer.rows[0].job;
  EXPECT_EQ(running.ref.id, 6u);
  EXPECT_EQ(running.ref.submit_time, from_ms(1796067946000));
  EXPECT_EQ(running.key, "berth-00000000000000aa");
  EXPECT_EQ(running.state, JobState::running);
  EXPECT_EQ(running.restarts, 1);
  EXPECT_EQ(running.started_at, from_ms(1796067947000));
  EXPECT_EQ(running.ends_at, from_ms(1796068547000));
  EXPECT_EQ(running.time_limit, minutes(10));
  EXPECT_EQ(running.nodes, std::vector<std::string>({"h100n1", "h100n2"}));
  EXPECT_EQ(running.user, "alice");
  EXPECT_EQ(running.account, "gaia");
  EXPECT_EQ(answer.rows[0].uid, 7001u);
  const JobObserved& pending = answer.rows[1].job;
  EXPECT_EQ(pending.reason, "ReqNodeNotAvail, UnavailableNodes:n2");  // C15: verbatim
  EXPECT_EQ(pending.pending_class, PendingClass::needs_admin);
  EXPECT_FALSE(pending.estimated_start);
  EXPECT_FALSE(pending.ends_at);
  EXPECT_EQ(pending.time_limit, hours(24));
}

TEST(SlurmAnswer, HostileNamesForgeNothing) {  // C11
  std::string names[] = {"crazy|name",
                         "a\tb",
                         "1,2-x",
                         "名前",
                         "a\x1f"
                         "b",
                         "x>\n7^0^RUNNING",
                         "line1\nline2|x",
                         ">NXXXX\n"};
  std::string text = kHeader;
  for (const std::string& name : names) {
    std::string r = kRunning;
    r.replace(r.find("berth-00000000000000aa"), 22, name);
    text += r;
  }
  QueueAnswer answer = read_squeue(said(text + kPending), kNonce);
  EXPECT_EQ(answer.quality, Quality::complete) << answer.error;
  ASSERT_EQ(answer.rows.size(), std::size(names) + 1);
  for (size_t i = 0; i < std::size(names); ++i) EXPECT_EQ(answer.rows[i].job.key, names[i]);
  EXPECT_EQ(answer.rows.back().job.ref.id, 5u);
}

TEST(SlurmAnswer, AnEmptyQueueIsProvenByTheHeader) {
  EXPECT_EQ(read_squeue(said(kHeader), kNonce).quality, Quality::complete);
  EXPECT_EQ(read_squeue(said("CLUSTER: lab\n" + kHeader), kNonce).quality, Quality::complete);
}

TEST(SlurmAnswer, BrokenAnswersAreNotEmptyQueues) {  // C03
  // (a) status 1 and an error
  QueueAnswer a = read_squeue(
      said("", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", 1),
      kNonce);
  EXPECT_EQ(a.quality, Quality::failed);
  EXPECT_NE(a.error.find("Unable to contact slurm controller"), std::string::npos);
  // (b) status 0, nothing but an error
  QueueAnswer b = read_squeue(
      said("", "slurm_load_jobs error: Socket timed out on send/recv operation\n"), kNonce);
  EXPECT_EQ(b.quality, Quality::failed);
  EXPECT_NE(b.error.find("Socket timed out"), std::string::npos);
  EXPECT_EQ(read_squeue(said(""), kNonce).quality, Quality::failed);
  // (c) only the cluster's line
  EXPECT_EQ(read_squeue(said("CLUSTER: name\n"), kNonce).quality, Quality::failed);
  // (d) hangs
  runtime::CommandResult hung;
  hung.timed_out = true;
  hung.signal = 9;
  hung.took = seconds(10);
  QueueAnswer d = read_squeue(hung, kNonce);
  EXPECT_EQ(d.quality, Quality::failed);
  EXPECT_NE(d.error.find("no answer within 10s"), std::string::npos) << d.error;
  // (e) cut at every byte: the last row must not be taken for whole, nor the queue for complete
  std::string whole = kHeader + kRunning + kPending;
  for (size_t cut = 0; cut < whole.size(); ++cut) {
    QueueAnswer e = read_squeue(said(whole.substr(0, cut)), kNonce);
    bool between_rows = cut == kHeader.size() || cut == kHeader.size() + kRunning.size();
    if (!between_rows) {
      EXPECT_NE(e.quality, Quality::complete) << cut;
    }
    for (const QueueRow& r : e.rows) EXPECT_EQ(r.job.key.size(), 22u);
  }
  // (f) killed by a signal: what came is true, no more
  runtime::CommandResult killed = said(kHeader + kRunning);
  killed.exit_status.reset();
  killed.signal = 9;
  QueueAnswer f = read_squeue(killed, kNonce);
  EXPECT_EQ(f.quality, Quality::partial);
  EXPECT_EQ(f.rows.size(), 1u);
}

TEST(SlurmAnswer, RowsBesideAnErrorAreNotAll) {
  QueueAnswer answer =
      read_squeue(said(kHeader + kRunning, "squeue: error: Invalid user: nosuch\n"), kNonce);
  EXPECT_EQ(answer.quality, Quality::partial);
  EXPECT_EQ(answer.rows.size(), 1u);
  EXPECT_EQ(read_squeue(said(kHeader + row("x^1")), kNonce).quality, Quality::partial);
  runtime::CommandResult capped = said(kHeader);
  capped.truncated = true;
  EXPECT_EQ(read_squeue(capped, kNonce).quality, Quality::partial);
}

TEST(SlurmAnswer, FormatNamesEachFieldOnce) {
  std::string format = squeue_format(kNonce);
  EXPECT_EQ(format.substr(0, 14), "JobID:\x1f,UserID");
  EXPECT_TRUE(format.ends_with(",Name:>N9a2"));
}

struct Refusal {
  const char* error;
  int status;
  Code code;
};

TEST(SlurmAnswer, Refusals) {  // the lab's texts
  const Refusal table[] = {
      {"sbatch: error: invalid partition specified: nope\nsbatch: error: Batch job submission "
       "failed: Invalid partition name specified\n",
       1, Code::invalid_argument},
      {"sbatch: error: Batch job submission failed: Invalid account or account/partition "
       "combination specified\n",
       1, Code::invalid_argument},
      {"sbatch: error: Batch job submission failed: Invalid qos specification\n", 1,
       Code::invalid_argument},
      {"sbatch: error: Batch job submission failed: Requested node configuration is not "
       "available\n",
       1, Code::invalid_argument},
      {"sbatch: error: Invalid generic resource (gres) specification\n", 1, Code::invalid_argument},
      {"sbatch: error: Invalid --time specification\n", 255, Code::invalid_argument},
      {"sbatch: error: Batch job submission failed: Requested time limit is invalid (missing or "
       "exceeds some limit)\n",
       1, Code::invalid_argument},
      // C17
      {"sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission failed: Job "
       "violates accounting/QOS policy (job submit limit, user's size and/or time limits)\n",
       1, Code::exhausted},
      {"sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: "
       "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)\n",
       1, Code::exhausted},
      {"sbatch: error: QOSMinGRES\nsbatch: error: Batch job submission failed: Job violates "
       "accounting/QOS policy (job submit limit, user's size and/or time limits)\n",
       1, Code::invalid_argument},
      {"sbatch: error: Batch job submission failed: Required partition not available (inactive or "
       "drain)\n",
       1, Code::unavailable},
      {"sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect "
       "failure)\n",
       1, Code::unavailable},
      // It was submitted: it ran once slurmctld went on.
      {"sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n", 1,
       Code::unknown_outcome},
      {"sbatch: error: Batch job submission failed: Something new\n", 1, Code::unavailable},
      {"", 1, Code::unknown_outcome},
      {"", 0, Code::unknown_outcome},
  };
  for (const Refusal& refusal : table) {
    Error error = explain_sbatch_failure(said("", refusal.error, refusal.status));
    EXPECT_EQ(error.code, refusal.code) << refusal.error << error.message;
    EXPECT_EQ(error.source, Source::scheduler);
  }
  Error error = explain_sbatch_failure(said("", table[7].error, 1));
  EXPECT_NE(error.message.find("AssocMaxSubmitJobLimit"), std::string::npos) << error.message;
  EXPECT_EQ(error.message.find("error:"), std::string::npos) << error.message;
  runtime::CommandResult hung;
  hung.timed_out = true;
  EXPECT_EQ(explain_sbatch_failure(hung).code, Code::unknown_outcome);
}

std::string account_row(std::string text) {
  std::string out, delimiter = sacct_delimiter(kNonce);
  for (char c : text)
    if (c == '^')
      out += delimiter;
    else
      out += c;
  return out + delimiter + "\n";
}

std::vector<AccountingRow> rows_of(const std::string& text) {
  auto rows = read_sacct(said(text), kNonce);
  EXPECT_TRUE(rows.ok()) << (rows.ok() ? "" : rows.error().message);
  return rows.ok() ? *rows : std::vector<AccountingRow>{};
}

JobRef ref(uint64_t id, int64_t submitted) {
  JobRef r;
  r.id = id;
  if (submitted) r.submit_time = from_ms(submitted * 1000);
  return r;
}

TEST(SlurmAnswer, Accounting) {
  auto rows =
      rows_of(account_row("3^100^101^102^FAILED^15:0^cpun1^None^b") +
              account_row("1^100^101^102^CANCELLED by 0^0:0^cpun1^None^crazy|na\nme\x1fx") +
              account_row("5^100^Unknown^Unknown^PENDING^0:0^None assigned^PartitionConfig^d"));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1].name, "crazy|na\nme\x1fx");
  auto end = end_from_accounting(ref(3, 100), rows);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->state, JobState::failed);
  EXPECT_EQ(end->exit_code, 15);
  EXPECT_EQ(end->ended_at, from_ms(102000));
  EXPECT_EQ(end->reason, "");
  EXPECT_EQ(end_from_accounting(ref(1, 100), rows)->cancelled_by_uid, 0u);  // C01
  EXPECT_FALSE(end_from_accounting(ref(5, 100), rows));
  EXPECT_FALSE(end_from_accounting(ref(9, 100), rows));
  EXPECT_TRUE(rows_of("").empty());
}

TEST(SlurmAnswer, AccountingLags) {  // C05
  auto rows = rows_of(account_row("6^100^101^Unknown^PENDING^0:0^n1^None^a") +
                      account_row("7^100^101^Unknown^COMPLETED^0:0^n1^None^b"));
  EXPECT_FALSE(end_from_accounting(ref(6, 100), rows));
  auto end = end_from_accounting(ref(7, 100), rows);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->state, JobState::completed);
  EXPECT_FALSE(end->ended_at);  // provisional
}

TEST(SlurmAnswer, ARequeuedJobGoesOn) {  // C07
  auto first = account_row("13^100^101^110^PREEMPTED^0:0^n1^None^key");
  auto requeued = account_row("13^100^101^110^REQUEUED^0:0^n1^None^key");
  auto waits = account_row("13^111^Unknown^Unknown^PENDING^0:0^None assigned^BeginTime^key");
  EXPECT_TRUE(end_from_accounting(ref(13, 100), rows_of(first)));
  EXPECT_FALSE(end_from_accounting(ref(13, 100), rows_of(requeued)));
  EXPECT_FALSE(end_from_accounting(ref(13, 100), rows_of(first + waits)));
}

TEST(SlurmAnswer, AReusedIdIsNotOurs) {
  auto old = account_row("13^50^51^60^COMPLETED^0:0^n1^None^other");
  auto ours = account_row("13^100^101^Unknown^RUNNING^0:0^n1^None^key");
  auto later = account_row("13^200^201^210^FAILED^1:0^n1^None^another");
  EXPECT_FALSE(end_from_accounting(ref(13, 100), rows_of(old)));
  EXPECT_FALSE(end_from_accounting(ref(13, 100), rows_of(old + ours + later)));
  EXPECT_EQ(end_from_accounting(ref(13, 0), rows_of(old))->key, "other");
}

TEST(SlurmAnswer, BrokenAccountingIsAnError) {  // C29
  EXPECT_FALSE(
      read_sacct(said("", "sacct: error: Sending PersistInit msg: Connection refused\n", 1), kNonce)
          .ok());
  EXPECT_FALSE(read_sacct(said("", "Slurm accounting storage is disabled\n", 1), kNonce).ok());
  std::string whole = account_row("3^100^101^102^FAILED^15:0^cpun1^None^b");
  for (size_t cut = 1; cut + 1 < whole.size(); ++cut)
    EXPECT_FALSE(read_sacct(said(whole.substr(0, cut)), kNonce).ok()) << cut;
  EXPECT_FALSE(read_sacct(said(account_row("x^1^2^3^FAILED^1:0^a^b^c")), kNonce).ok());
}

TEST(SlurmAnswer, EndsFromBothSources) {
  std::string ended = row("3^0^FAILED^0^36608^100^101^102^10:00^root^cpun1^NonZeroExitCode^root^b");
  std::string cancelled = row("1^0^CANCELLED^0^15^100^101^102^10:00^root^cpun1^None^root^c");
  QueueAnswer queue = read_squeue(said(kHeader + ended + cancelled + kRunning), kNonce);
  auto end = end_from_queue(ref(3, 100), queue.rows);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->exit_code, 143);  // sacct would say 15
  EXPECT_EQ(end->ended_at, from_ms(102000));
  EXPECT_FALSE(end_from_queue(ref(6, 0), queue.rows));     // it runs
  EXPECT_FALSE(end_from_queue(ref(3, 5000), queue.rows));  // an older job with our id
  auto rows = rows_of(account_row("3^100^101^102^FAILED^15:0^cpun1^None^b") +
                      account_row("1^100^101^102^CANCELLED by 7001^0:0^cpun1^None^c"));
  JobEnd merged = merge_ends(*end, *end_from_accounting(ref(3, 100), rows));
  EXPECT_EQ(merged.exit_code, 143);
  merged =
      merge_ends(*end_from_queue(ref(1, 100), queue.rows), *end_from_accounting(ref(1, 100), rows));
  EXPECT_EQ(merged.cancelled_by_uid, 7001u);
  EXPECT_EQ(merged.state_text, "CANCELLED by 7001");
  EXPECT_EQ(merged.signal, 15);
}

TEST(SlurmAnswer, ExplainsTheOutputFile) {  // A17
  JobEnd end;
  end.state = JobState::failed;
  end.signal = 53;
  EXPECT_NE(explain_end(end, "/nodir/x.out").find("could not open output file /nodir/x.out"),
            std::string::npos);
  end.signal = 9;
  EXPECT_EQ(explain_end(end, "/nodir/x.out"), "");
}

}  // namespace
}  // namespace berth::sched
