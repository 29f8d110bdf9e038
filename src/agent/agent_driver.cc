#include "agent/agent_driver.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "base/log.h"
#include "runtime/resolve.h"
#include "runtime/signals.h"

namespace berth::agent {
namespace {

using runtime::Task;

constexpr Duration kTreeLook = milliseconds(20);
constexpr Duration kOutputEnd = milliseconds(100);

lifecycle::LifecycleSettings settings_of(const AgentOptions& options) {
  lifecycle::LifecycleSettings s;
  s.load_timeout = options.load_timeout;
  s.drain_grace = options.drain_grace;
  if (!options.replica_key.empty()) s.limit_warning = kLimitWarning;
  return s;
}

runtime::Address engine_address(const config::Endpoint& endpoint) {
  std::string text = endpoint.transport == config::Transport::unix_socket
                         ? "unix:" + endpoint.path
                         : join_host_port(endpoint.host, endpoint.port);
  auto address = runtime::Address::parse(text);
  CHECK(address.ok());  // made by prepare()
  return *address;
}

std::vector<uint16_t> ports_of(PortRange range) {
  if (range.any()) return {0};
  std::vector<uint16_t> ports;
  // From a place that differs between jobs; the kernel settles what is taken.
  unsigned count = range.last - range.first + 1u, start = static_cast<unsigned>(getpid()) % count;
  for (unsigned i = 0; i < count; ++i)
    ports.push_back(static_cast<uint16_t>(range.first + (start + i) % count));
  return ports;
}

bool is_launcher(const std::string& argv0) {
  std::string_view name = argv0;
  name = name.substr(name.rfind('/') + 1);
  return name == "srun" || name == "mpirun" || name == "mpiexec" || name == "prun";
}

}  // namespace

AgentDriver::AgentDriver(runtime::Loop& loop, runtime::BlockingPool& pool, AgentParts& parts)
    : loop_(loop),
      pool_(pool),
      parts_(parts),
      started_wall_(wall_now()),
      started_mono_(loop.now()),
      machine_(settings_of(parts.options)),
      berth_(loop, pool, parts.berth),
      wake_(*this),
      tasks_(loop) {
  target_.address = engine_address(parts_.endpoint);
  target_.key = parts_.endpoint.engine_key;
  target_.preset = parts_.launch.preset;
  target_.model_ids = parts_.launch.model_ids;
  if (parts_.space) {
    dialer_ = std::make_unique<NamespaceDialer>(*parts_.space, parts_.endpoint.port);
    target_.dialer = dialer_.get();
  } else if (parts_.endpoint.transport == config::Transport::tcp) {
    target_.check_listener = [this] { return check_listener(); };
  }
  FrontSettings front;
  front.secret = berth_.secret();
  front.engine = &target_;
  front.on_in_flight = [this](int count) { deliver_within_request(lifecycle::InFlight{count}); };
  front_ = std::make_unique<Front>(loop_, std::move(front));
}

// Steady, so that a clock that is set does not end a replica.
Instant AgentDriver::now() {
  return started_wall_ + std::chrono::duration_cast<Duration>(loop_.now() - started_mono_);
}

Task<int> AgentDriver::run() {
  tasks_.spawn(watch_signals());
  tasks_.spawn(watch_witness());
  if (parts_.job.ends_at) deliver(lifecycle::JobSeen{parts_.job.ends_at});
  deliver(lifecycle::Begin{});
  if (parts_.job.scheduler == JobFacts::Scheduler::slurm) tasks_.spawn(learn_job());
  ExitWait exit(*this);
  int status = co_await exit;
  co_await front_->shut();
  co_return status;
}

void AgentDriver::deliver(Event event) {
  queue_.push_back(std::move(event));
  if (delivering_) return;
  delivering_ = true;
  while (!queue_.empty()) {
    Event next = std::move(queue_.front());
    queue_.pop_front();
    auto commands = machine_.on(next, now());
    bool ready = machine_.lease_state() == LeaseState::ready;
    // Before Berth hears of it: it dials back at once.
    front_->set_ready(ready ? Front::Ready::yes : Front::Ready::no,
                      std::string(to_string(machine_.lease_state())));
    if (ready) note_first_answer();
    for (const lifecycle::Command& command : commands) obey(command);
  }
  delivering_ = false;
  arm_wake();
}

// The front calls from within a request, whose head stands in the loop's shared buffer: the machine
// hears of it at once, but what it commands may read and write, and waits for the next turn.
void AgentDriver::deliver_within_request(Event event) {
  auto commands = machine_.on(event, now());
  loop_.post([this, commands = std::move(commands)] {
    for (const lifecycle::Command& command : commands) obey(command);
    arm_wake();
  });
}

void AgentDriver::arm_wake() {
  if (auto at = machine_.next_wake())
    wake_.arm(loop_.timers(),
              started_mono_ +
                  std::chrono::duration_cast<runtime::MonoTime::duration>(*at - started_wall_));
  else
    wake_.disarm();
}

void AgentDriver::note_first_answer() {
  if (answered_at_) return;
  answered_at_ = now();
  log_info("agent", "the engine answers as \"{}\" after {}", served_model_,
           to_human(now() - started_wall_));
}

void AgentDriver::obey(const lifecycle::Command& command) {
  log_debug("agent", "{}", lifecycle::describe(command));
  struct Obey {
    AgentDriver& d;
    void operator()(const lifecycle::StartEngine&) { d.start_engine(); }
    void operator()(const lifecycle::Probe& c) { d.tasks_.spawn(d.probe(c.depth)); }
    void operator()(const lifecycle::Register&) { d.tasks_.spawn(d.register_now()); }
    void operator()(const lifecycle::Heartbeat& c) { d.tasks_.spawn(d.heartbeat(c)); }
    void operator()(const lifecycle::CloseFront&) {
      d.front_->close();
      log_info("agent", "no new requests; {} in flight; {}", d.front_->in_flight(),
               d.machine_.verdict() ? d.machine_.verdict()->detail : "");
    }
    void operator()(const lifecycle::TermEngine&) {
      int count = d.engine_ ? d.engine_->term_tree() : 0;
      log_info("agent", "SIGTERM to the engine ({} processes)", count);
    }
    void operator()(const lifecycle::KillTree&) {
      if (!d.engine_) return;
      size_t left = d.engine_->living().size();
      if (left > 0) log_warn("agent", "SIGKILL to {} processes of the engine", left);
      d.engine_->kill_tree();
    }
    void operator()(const lifecycle::AskScheduler&) { d.tasks_.spawn(d.ask_scheduler()); }
    void operator()(const lifecycle::ReportEnd& c) { d.tasks_.spawn(d.report(c)); }
    void operator()(const lifecycle::Exit& c) {
      auto verdict = d.machine_.verdict();
      log_info("agent", "end: {} ({}), status {}",
               verdict ? to_string(verdict->cause) : std::string_view("unknown"),
               verdict ? verdict->detail : "", c.status);
      d.exit_ = c.status;
      if (d.exit_wait_) d.loop_.wake(*d.exit_wait_);
    }
  };
  std::visit(Obey{*this}, command);
}

// --- the engine -----------------------------------------------------------------------------

void AgentDriver::start_engine() {
  EngineCommand command;
  command.argv = parts_.launch.argv;
  command.env = engine_environment(environ, parts_.launch.env);
  command.out_fd = parts_.output->engine_out();
  command.err_fd = parts_.output->engine_err();
  command.space = parts_.space.get();
  command.not_engine = {parts_.witness->pid()};
  if (parts_.space) command.not_engine.insert(parts_.space->keeper());
  auto started = EngineProcess::start(loop_, std::move(command));
  parts_.output->close_engine_ends();
  if (!started) {
    deliver(lifecycle::EngineStartFailed{started.error().message});
    return;
  }
  engine_ = std::move(started).value();
  engine_at_ = now();
  log_info("agent", "engine started as process {} after {}", engine_->pid(),
           to_human(now() - started_wall_));
  deliver(lifecycle::EngineStarted{});
  tasks_.spawn(watch_engine());
}

Task<void> AgentDriver::watch_engine() {
  EngineExit end = co_await engine_->wait();
  // The last words may still be in the pipe; a child that lives on may hold it open.
  EngineOutput* output = parts_.output.get();
  auto wait_for_end = [output] { return output->wait_for_end(kOutputEnd); };
  co_await pool_.run(wait_for_end);
  auto stage = machine_.was_ready() ? EngineOutput::Stage::serving : EngineOutput::Stage::loading;
  deliver(lifecycle::EngineExited{end.exit_code, end.signal, output->tail(stage)});
  co_await watch_tree();
}

Task<void> AgentDriver::watch_tree() {
  for (;;) {
    bool gone = engine_->living().empty();
    if (gone) break;
    co_await runtime::sleep_for(loop_, kTreeLook);
  }
  deliver(lifecycle::TreeGone{});
}

Status AgentDriver::check_listener() {
  auto owner = listener_of(parts_.endpoint.port, engine_->living());
  if (owner && owner->in_tree) return {};
  // A step that a launcher started is no descendant of ours, but runs as the same user.
  bool launched = is_launcher(parts_.launch.argv[0]);
  if (owner && launched && owner->uid == geteuid()) return {};
  if (!owner)
    return unavailable(fmt::format("nobody listens on 127.0.0.1:{} of this machine any more",
                                   parts_.endpoint.port),
                       Source::engine);
  return unavailable(
      fmt::format("port {} is held by another process (user id {}), not by the engine; it was free "
                  "when it was chosen. Start again",
                  parts_.endpoint.port, owner->uid),
      Source::engine);
}

Task<void> AgentDriver::probe(lifecycle::Probe::Depth depth) {
  ProbeAnswer answer;
  if (depth == lifecycle::Probe::Depth::full)
    answer = co_await probe_full(loop_, target_);
  else
    answer = co_await probe_light(loop_, target_);
  if (answer.verdict == lifecycle::Probed::Verdict::right &&
      depth == lifecycle::Probe::Depth::full) {
    served_model_ = answer.served_model;
    if (served_model_.empty() && !target_.model_ids.empty())
      served_model_ = target_.model_ids.front();
    context_length_ = answer.context_length;
  }
  deliver(lifecycle::Probed{answer.verdict, answer.detail});
}

// --- the job --------------------------------------------------------------------------------

Task<void> AgentDriver::watch_signals() {
  runtime::Signals signals(loop_, {SIGTERM, SIGUSR1, SIGINT});
  for (;;) {
    int number = co_await signals.next();
    if (number == 0) continue;
    log_info("agent", "got signal {}", number);
    using lifecycle::StopSignal;
    deliver(lifecycle::Signalled{number == SIGTERM   ? StopSignal::term
                                 : number == SIGUSR1 ? StopSignal::usr1
                                                     : StopSignal::interrupt});
  }
}

Task<void> AgentDriver::watch_witness() {
  bool saw = co_await parts_.witness->saw_term(loop_);
  if (saw) deliver(lifecycle::EngineAlreadyTold{});
}

Task<void> AgentDriver::learn_job() {
  if (!parts_.job.ends_at) {
    auto ask = [id = parts_.job.id] { return ask_job(id); };
    auto view = co_await pool_.run(ask);
    if (view && view->ends_at) {
      parts_.job.ends_at = view->ends_at;
      deliver(lifecycle::JobSeen{view->ends_at});
    } else if (!view) {
      log_warn("agent", "the job's end is not known: {}", view.error().message);
    }
  }
  auto kill_wait = co_await pool_.run(&ask_kill_wait);
  if (kill_wait) deliver(lifecycle::JobSeen{std::nullopt, *kill_wait});
}

Task<void> AgentDriver::ask_scheduler() {
  if (parts_.job.scheduler != JobFacts::Scheduler::slurm) co_return;
  auto ask = [id = parts_.job.id] { return ask_job(id); };
  auto view = co_await pool_.run(ask);
  if (view) deliver(lifecycle::JobSeen{view->ends_at, std::nullopt, view->word});
}

// --- Berth ----------------------------------------------------------------------------------

Task<Result<ChosenAddress>> AgentDriver::find_address() {
  AddressFacts facts;
  facts.interfaces = interface_addresses();
  auto berth = co_await berth_.locate();
  if (!berth) co_return std::move(berth).error();
  facts.berth_is_local = berth->is_unix() || is_loopback_address(berth->host());
  facts.source = source_address_to(*berth);
  const std::string& policy = parts_.options.address_policy;
  bool wants_node = policy.empty() || policy == "auto" || policy == "slurm";
  if (wants_node && parts_.job.scheduler == JobFacts::Scheduler::slurm &&
      !parts_.job.node.empty()) {
    auto ask = [name = parts_.job.node] { return ask_node_address(name); };
    auto node = co_await pool_.run(ask);
    if (!node && policy == "slurm") co_return std::move(node).error();
    if (node) {
      facts.node_address_text = *node;
      auto resolved = co_await runtime::resolve(pool_, join_host_port(*node, 1));
      if (resolved)
        for (const runtime::Address& a : *resolved) facts.node_addresses.push_back(a.host());
    }
  }
  co_return choose_address(policy, facts);
}

Task<Status> AgentDriver::open_front() {
  auto chosen = co_await find_address();
  if (!chosen) co_return std::move(chosen).error();
  auto port = front_->listen(chosen->bind, ports_of(parts_.front_ports));
  if (!port) co_return std::move(port).error();
  address_ = join_host_port(chosen->registered, *port);
  co_return Status();
}

Task<void> AgentDriver::register_now() {
  using lifecycle::RegisterFailed;
  if (address_.empty()) {
    Status opened = co_await open_front();
    if (!opened) {
      bool later = opened.error().code == Code::unavailable || opened.error().code == Code::timeout;
      log_warn("agent", "{}", opened.error().message);
      deliver(RegisterFailed{
          later ? RegisterFailed::Kind::unreachable : RegisterFailed::Kind::impossible,
          opened.error().message});
      co_return;
    }
  }
  proto::RegisterRequest request;
  request.service = parts_.options.service;
  request.replica_key = parts_.options.replica_key;
  request.job_id = parts_.job.id;
  request.cluster = parts_.job.cluster;
  request.restarts = parts_.job.restarts;
  request.node = parts_.job.node;
  if (request.node.empty()) {
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    request.node = name;
  }
  request.address = address_;
  request.engine = parts_.launch.preset->kind;
  request.access = parts_.options.access;
  request.stops_at = parts_.job.ends_at;
  if (parts_.job.began_at)
    request.began_ago = std::max(Duration(0), wall_now() - *parts_.job.began_at);
  if (engine_at_) request.engine_ago = now() - *engine_at_;
  auto outcome = co_await berth_.register_replica(std::move(request));
  if (!outcome.reply) {
    log_warn("agent", "registration: {}", outcome.failure.why);
    deliver(outcome.failure);
    co_return;
  }
  log_info("agent", "registered as {} at {}, lease {}", outcome.reply->public_name, address_,
           outcome.reply->lease_id);
  deliver(lifecycle::Registered{outcome.reply->heartbeat});
}

Task<void> AgentDriver::heartbeat(lifecycle::Heartbeat command) {
  proto::HeartbeatRequest request;
  request.state = command.state;
  request.detail = command.detail;
  request.served_model = served_model_;
  request.context_length = context_length_;
  request.in_flight = front_->in_flight();
  request.stops_at = parts_.job.ends_at;
  if (answered_at_) request.answered_ago = now() - *answered_at_;
  auto outcome = co_await berth_.heartbeat(std::move(request));
  if (outcome.reply) {
    // An operator may have moved it since the job began.
    const auto& ends_at = outcome.reply->job_ends_at;
    if (ends_at && ends_at != parts_.job.ends_at) {
      log_info("agent", "the job ends at {} now", to_rfc3339(*ends_at));
      parts_.job.ends_at = ends_at;
      deliver(lifecycle::JobSeen{ends_at});
    }
    bool drain = outcome.reply->directive == proto::Directive::drain;
    deliver(lifecycle::HeartbeatAnswered{drain, outcome.reply->why});
  } else {
    log_warn("agent", "heartbeat: {}", outcome.why);
    deliver(outcome.failure);
  }
}

Task<void> AgentDriver::report(lifecycle::ReportEnd command) {
  proto::EndReport request{command.cause, command.detail, command.exit_code, command.signal};
  bool done = co_await berth_.end(std::move(request));
  deliver(lifecycle::EndReported{done ? lifecycle::EndReported::Outcome::done
                                      : lifecycle::EndReported::Outcome::failed});
}

}  // namespace berth::agent
