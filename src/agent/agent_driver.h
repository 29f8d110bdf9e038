// Runs the agent's life: carries out what lifecycle/ commands with the hooks, and tells it what
// happened. Decides nothing itself.
//
// What must be made before any thread (namespace, witness) and what may fail before there is a life
// (workspace, endpoint, command line) comes in as AgentParts; see prepare() in agent.cc.
// Ownership: the driver borrows AgentParts, which outlives it. Threading: the loop's thread.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "agent/agent.h"
#include "agent/front.h"
#include "agent/hook_address.h"
#include "agent/hook_berth.h"
#include "agent/hook_endpoint.h"
#include "agent/hook_engine.h"
#include "agent/hook_isolation.h"
#include "agent/hook_job.h"
#include "agent/hook_output.h"
#include "agent/hook_probe.h"
#include "agent/hook_signals.h"
#include "agent/hook_workspace.h"
#include "config/engines.h"
#include "lifecycle/agent_lifecycle.h"
#include "runtime/loop.h"
#include "runtime/task_scope.h"

namespace berth::agent {

// Connections into the engine's private network.
class NamespaceDialer final : public http::Dialer {
 public:
  NamespaceDialer(NetNamespace& space, uint16_t port) : space_(space), port_(port) {}
  runtime::Task<Result<runtime::StreamPtr>> dial(runtime::Loop& loop, runtime::Wait wait) override {
    return connect_inside(loop, space_, port_, wait);
  }

 private:
  NetNamespace& space_;
  uint16_t port_;
};

struct AgentParts {
  AgentOptions options;
  JobFacts job;
  PortRange front_ports;
  BerthSettings berth;
  std::unique_ptr<Witness> witness;
  std::unique_ptr<NetNamespace> space;  // null unless the isolation is a namespace
  std::unique_ptr<Workspace> workspace;
  std::unique_ptr<EngineOutput> output;
  config::Endpoint endpoint;
  config::EngineLaunch launch;
};

class AgentDriver {
 public:
  AgentDriver(runtime::Loop& loop, runtime::BlockingPool& pool, AgentParts& parts);
  // From Begin to Exit; the value is the exit status.
  runtime::Task<int> run();

 private:
  using Event = lifecycle::Event;

  class WakeTimer final : public runtime::Timer {
   public:
    explicit WakeTimer(AgentDriver& driver) : driver_(driver) {}

   private:
    // Not from here: the wheel is turning.
    void fire() override {
      driver_.loop_.post([this] { driver_.deliver(lifecycle::Timer{}); });
    }
    AgentDriver& driver_;
  };

  // Until the machine says Exit.
  class ExitWait final : public runtime::Waiter {
   public:
    explicit ExitWait(AgentDriver& driver) : driver_(driver) {}
    ~ExitWait() override { driver_.exit_wait_ = nullptr; }
    bool await_ready() const { return driver_.exit_.has_value(); }
    void await_suspend(std::coroutine_handle<> h) {
      handle_ = h;
      driver_.exit_wait_ = this;
    }
    int await_resume() const { return *driver_.exit_; }

   private:
    AgentDriver& driver_;
  };

  Instant now();
  void deliver(Event event);
  void deliver_within_request(lifecycle::Event event);
  void arm_wake();
  void obey(const lifecycle::Command& command);
  void start_engine();
  runtime::Task<void> watch_engine();
  runtime::Task<void> watch_tree();
  runtime::Task<void> watch_signals();
  runtime::Task<void> watch_witness();
  runtime::Task<void> learn_job();
  runtime::Task<void> ask_scheduler();
  runtime::Task<void> probe(lifecycle::Probe::Depth depth);
  runtime::Task<void> register_now();
  runtime::Task<Status> open_front();
  runtime::Task<Result<ChosenAddress>> find_address();
  runtime::Task<void> heartbeat(lifecycle::Heartbeat command);
  runtime::Task<void> report(lifecycle::ReportEnd command);
  Status check_listener();
  void note_first_answer();

  runtime::Loop& loop_;
  runtime::BlockingPool& pool_;
  AgentParts& parts_;
  Instant started_wall_;
  runtime::MonoTime started_mono_;
  lifecycle::AgentLifecycle machine_;
  Berth berth_;
  std::unique_ptr<NamespaceDialer> dialer_;
  EngineTarget target_;
  std::unique_ptr<Front> front_;
  std::string address_;  // "host:port" of the front; "" until it listens
  std::unique_ptr<EngineProcess> engine_;
  std::optional<Instant> engine_at_;    // exec
  std::optional<Instant> answered_at_;  // first right answer
  std::string served_model_;
  std::optional<int64_t> context_length_;
  std::deque<Event> queue_;
  bool delivering_ = false;
  std::optional<int> exit_;
  ExitWait* exit_wait_ = nullptr;
  WakeTimer wake_;
  runtime::TaskScope tasks_;
};

}  // namespace berth::agent
