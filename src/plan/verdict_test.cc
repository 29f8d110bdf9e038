#include "plan/verdict.h"

#include <gtest/gtest.h>

namespace berth::plan {
namespace {

enum class Stop { none, decided, cancel_sent };
enum class Ready { never, was };

struct Row {
  const char* what;
  std::optional<JobState> job;  // accounting's state
  std::optional<EndCause> agent;
  Stop stop;
  Ready ready;
  std::optional<int> signal;
  const char* reason;
  EndCause expected;
};

TEST(JudgeEnd, TellsTheCausesApart) {
  using enum EndCause;
  const std::optional<EndCause> no_agent;
  const std::optional<int> no_signal;
  const std::optional<JobState> silent;
  for (const Row& row : {
           Row{"crash after ready", JobState::failed, no_agent, Stop::none, Ready::was, 11, "",
               crashed},
           {"crash while loading", JobState::failed, no_agent, Stop::none, Ready::never, no_signal,
            "NonZeroExitCode", failed_to_load},
           {"agent: load failed", JobState::failed, failed_to_load, Stop::none, Ready::never,
            no_signal, "", failed_to_load},
           {"agent: load timeout", JobState::failed, load_timeout, Stop::none, Ready::never,
            no_signal, "", load_timeout},
           {"agent: crashed, exit 0", JobState::completed, crashed, Stop::none, Ready::was,
            no_signal, "", crashed},
           {"agent: crashed, then cancelled", JobState::cancelled, crashed, Stop::none, Ready::was,
            no_signal, "", crashed},
           {"output not writable", JobState::failed, no_agent, Stop::none, Ready::never, 53, "",
            launch_failed},
           {"launch failure by reason", JobState::failed, no_agent, Stop::none, Ready::never,
            no_signal, "JobLaunchFailure", launch_failed},
           {"preempted", JobState::preempted, no_agent, Stop::none, Ready::was, no_signal, "",
            preempted},
           {"node failed, agent had said stopped", JobState::node_failed, stopped, Stop::none,
            Ready::was, no_signal, "", node_failed},
           {"oom explains the crash", JobState::out_of_memory, crashed, Stop::none, Ready::was, 9,
            "", out_of_memory},
           {"time limit", JobState::timed_out, no_agent, Stop::none, Ready::was, no_signal, "",
            time_limit},
           {"somebody's scancel", JobState::cancelled, stopped, Stop::none, Ready::was, no_signal,
            "", cancelled},
           {"our scancel", JobState::cancelled, no_agent, Stop::cancel_sent, Ready::was, no_signal,
            "", stopped},
           // C33: it ended by itself before the cancel arrived.
           {"drained", JobState::completed, completed, Stop::decided, Ready::was, no_signal, "",
            stopped},
           {"planned end", JobState::completed, completed, Stop::none, Ready::was, no_signal, "",
            completed},
           {"agent alone", silent, crashed, Stop::none, Ready::was, no_signal, "", crashed},
           {"nobody knows", silent, no_agent, Stop::none, Ready::was, no_signal, "", unknown},
           {"nobody knows, but we stopped it", silent, no_agent, Stop::cancel_sent, Ready::was,
            no_signal, "", stopped},
       }) {
    ReplicaRecord r;
    r.job.id = 7;
    if (row.ready == Ready::was) r.ready_at = from_ms(1);
    if (row.agent) r.agent_end = AgentEnd{from_ms(2), *row.agent, "said the agent", {}, {}};
    if (row.stop != Stop::none) r.stop = StopIntent{from_ms(2), "scaled down"};
    if (row.stop == Stop::cancel_sent) r.stop->cancel_attempts = 1;
    JobEnd end;
    end.state = row.job.value_or(JobState::unknown);
    end.signal = row.signal;
    end.reason = row.reason;
    Verdict v = judge_end(r, row.job ? &end : nullptr, Policy{});
    EXPECT_EQ(to_string(v.cause), to_string(row.expected)) << row.what;
    EXPECT_FALSE(v.detail.empty()) << row.what;
  }
}

TEST(JudgeEnd, NamesWhoCancelled) {
  ReplicaRecord r;
  JobEnd end;
  end.state = JobState::cancelled;
  end.cancelled_by_uid = 7001;
  EXPECT_EQ(judge_end(r, &end, Policy{}).detail, "cancelled by user 7001");
  Policy own;
  own.own_uid = 7001;
  EXPECT_NE(judge_end(r, &end, own).detail.find("account Berth runs as"), std::string::npos);
}

TEST(JudgeEnd, AccountingFillsInExitCodeAndSignal) {
  ReplicaRecord r;
  JobEnd end;
  end.state = JobState::failed;
  end.exit_code = 3;
  Verdict v = judge_end(r, &end, Policy{});
  EXPECT_EQ(v.exit_code, 3);
  EXPECT_NE(v.detail.find("exit status 3"), std::string::npos);
}

}  // namespace
}  // namespace berth::plan
