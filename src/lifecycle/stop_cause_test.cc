#include "lifecycle/stop_cause.h"

#include <gtest/gtest.h>

#include <vector>

namespace berth::lifecycle {
namespace {

StopFacts facts(StopReason reason, std::optional<Duration> left = hours(2)) {
  StopFacts f;
  f.reason = reason;
  f.was_ready = true;
  f.time_left = left;
  f.end_lead = seconds(140);
  return f;
}

TEST(StopCause, TableOfReasons) {
  struct Row {
    StopFacts facts;
    EndCause cause;
    int status;
  };
  StopFacts loading_exit = facts(StopReason::engine_exited);
  loading_exit.was_ready = false;
  const std::vector<Row> rows{
      {facts(StopReason::directive), EndCause::stopped, 0},
      {facts(StopReason::job_end_near, seconds(140)), EndCause::completed, 0},
      {facts(StopReason::signal_usr1, seconds(180)), EndCause::completed, 0},
      {facts(StopReason::signal_usr1, std::nullopt), EndCause::completed, 0},
      {facts(StopReason::signal_usr1, hours(3)), EndCause::preempted, 22},
      {facts(StopReason::signal_term), EndCause::cancelled, 20},
      {facts(StopReason::signal_term, std::nullopt), EndCause::cancelled, 20},
      {facts(StopReason::signal_term, seconds(3)), EndCause::time_limit, 21},
      {facts(StopReason::signal_term, seconds(-19)), EndCause::time_limit, 21},
      {facts(StopReason::signal_int), EndCause::cancelled, 20},
      {facts(StopReason::engine_exited), EndCause::crashed, 12},
      {loading_exit, EndCause::failed_to_load, 10},
      {facts(StopReason::wrong_model), EndCause::failed_to_load, 10},
      {facts(StopReason::load_timeout), EndCause::load_timeout, 11},
      {facts(StopReason::refused), EndCause::failed_to_load, 13},
      {facts(StopReason::could_not_start), EndCause::failed_to_load, 1},
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    StopVerdict v = judge_stop(rows[i].facts);
    EXPECT_EQ(v.cause, rows[i].cause) << "row " << i;
    EXPECT_EQ(v.exit_status, rows[i].status) << "row " << i;
    EXPECT_LT(v.exit_status, 128);
    EXPECT_FALSE(v.detail.empty()) << "row " << i;
  }
}

TEST(StopCause, TheSchedulersWordDecidesWhatASignalCannotTell) {
  StopFacts f = facts(StopReason::signal_term);
  f.scheduler = SchedulerWord::preempted;
  EXPECT_EQ(judge_stop(f).cause, EndCause::preempted);
  EXPECT_EQ(judge_stop(f).exit_status, 22);
  f.scheduler = SchedulerWord::cancelled;
  f.time_left = seconds(1);
  EXPECT_EQ(judge_stop(f).cause, EndCause::cancelled);
  f.scheduler = SchedulerWord::time_limit;
  f.time_left = hours(1);
  EXPECT_EQ(judge_stop(f).cause, EndCause::time_limit);
}

TEST(StopCause, APlannedEndIsNeverAFailedStart) {
  for (StopReason reason : {StopReason::directive, StopReason::job_end_near,
                            StopReason::signal_usr1, StopReason::signal_term})
    EXPECT_FALSE(counts_as_failure(judge_stop(facts(reason)).cause));
}

TEST(StopCause, TheEnginesLastWordsAreInTheDetail) {
  StopFacts f = facts(StopReason::engine_exited);
  f.was_ready = false;
  f.exit_code = 1;
  f.words = "torch.cuda.OutOfMemoryError";
  EXPECT_EQ(judge_stop(f).detail,
            "the engine ended before it was ready: exit status 1\ntorch.cuda.OutOfMemoryError");
  f.exit_code.reset();
  f.signal = 4;
  f.was_ready = true;
  f.words.clear();
  EXPECT_EQ(judge_stop(f).detail, "the engine ended by itself: killed by signal 4 (SIGILL)");
}

}  // namespace
}  // namespace berth::lifecycle
