#include "agent/hook_engine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "agent/hook_isolation.h"
#include "agent/process_tree.h"

namespace berth::agent {
namespace {

enum EngineStep { kEnterUser = 1, kEnterNetwork, kRedirect, kExec };

struct Failure {
  int step = 0;
  int error = 0;
};

// Everything the child needs, made before the fork: after it only system calls are safe.
struct Prepared {
  std::vector<char*> argv, env;
  std::string file;  // resolved by PATH of the engine's environment
  int out_fd, err_fd, null_fd, user_fd, net_fd, report_fd;
  pid_t agent;
};

std::string find_in_path(const std::string& name, const std::vector<std::string>& env) {
  if (name.find('/') != std::string::npos) return name;
  std::string_view path = "/usr/local/bin:/usr/bin:/bin";
  for (const std::string& entry : env)
    if (entry.starts_with("PATH=")) path = std::string_view(entry).substr(5);
  std::string denied;
  while (true) {
    size_t colon = path.find(':');
    std::string folder(path.substr(0, colon));
    std::string file = (folder.empty() ? "." : folder) + "/" + name;
    if (access(file.c_str(), X_OK) == 0) return file;
    if (errno == EACCES && denied.empty()) denied = file;
    if (colon == std::string_view::npos) break;
    path.remove_prefix(colon + 1);
  }
  return denied;
}

[[noreturn]] void fail(const Prepared& p, EngineStep step) {
  Failure failure{step, errno};
  (void)!write(p.report_fd, &failure, sizeof failure);
  _exit(127);
}

[[noreturn]] void become_engine(const Prepared& p) {
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != p.agent) _exit(127);
  for (int s = 1; s < NSIG; ++s)
    if (s != SIGKILL && s != SIGSTOP) signal(s, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // The user namespace first: it gives the right to enter the network.
  if (p.user_fd >= 0 && setns(p.user_fd, CLONE_NEWUSER) != 0) fail(p, kEnterUser);
  if (p.net_fd >= 0 && setns(p.net_fd, CLONE_NEWNET) != 0) fail(p, kEnterNetwork);
  // Changing namespaces may clear the death signal.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (dup2(p.null_fd, 0) < 0 || dup2(p.out_fd, 1) < 0 || dup2(p.err_fd, 2) < 0) fail(p, kRedirect);
  // Whatever else is open here closes at the exec; the report's pipe shows that it took place.
  if (syscall(SYS_close_range, 3u, ~0u, 1u << 2) != 0) {
    for (int fd = 3; fd < 65536; ++fd) fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  execve(p.file.c_str(), p.argv.data(), p.env.data());
  fail(p, kExec);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& t : texts) out.push_back(const_cast<char*>(t.c_str()));
  out.push_back(nullptr);
  return out;
}

Error start_error(const Failure& failure, const std::string& file) {
  if (failure.step != kExec)
    return explain_namespace_error("entering the engine's network namespace", failure.error);
  Error error = system_error(fmt::format("starting the engine {}", file), failure.error);
  if (failure.error == ENOENT) error.code = Code::not_found;
  if (failure.error == EACCES) error.code = Code::permission_denied;
  if (failure.error == ENOENT) error.message += " (or the interpreter its first line names)";
  return error;
}

}  // namespace

std::vector<std::string> engine_environment(char** own,
                                            const std::map<std::string, std::string>& more) {
  std::vector<std::string> env;
  for (char** entry = own; entry && *entry; ++entry) {
    std::string_view text = *entry;
    std::string name(text.substr(0, text.find('=')));
    // Nothing by which the engine, or who reads its environment, could act as the user or agent.
    bool own_only = name == "BERTH_KEY" || name == "BERTH_JOIN_FILE" || name == "BERTH_JOB_BEGAN";
    if (own_only || more.contains(name)) continue;
    env.emplace_back(text);
  }
  for (const auto& [name, value] : more) env.push_back(name + "=" + value);
  return env;
}

Result<std::unique_ptr<EngineProcess>> EngineProcess::start(runtime::Loop& loop,
                                                            EngineCommand command) {
  if (command.argv.empty()) return invalid_argument("no engine command after \"--\"");
  Prepared p;
  p.file = find_in_path(command.argv[0], command.env);
  if (p.file.empty())
    return not_found(fmt::format(
        "the engine \"{}\" is not in PATH; load its module or environment before the agent",
        command.argv[0]));
  p.argv = pointers(command.argv);
  p.env = pointers(command.env);
  p.out_fd = command.out_fd;
  p.err_fd = command.err_fd;
  p.user_fd = command.space ? command.space->user_fd() : -1;
  p.net_fd = command.space ? command.space->net_fd() : -1;
  p.agent = getpid();
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return system_error("starting the engine", errno);
  p.report_fd = report[1];
  p.null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  pid_t pid = fork();
  if (pid == 0) become_engine(p);
  int fork_error = errno;
  close(report[1]);
  close(p.null_fd);
  if (pid < 0) {
    close(report[0]);
    return system_error("starting the engine", fork_error);
  }
  Failure failure;
  ssize_t n;
  do {
    n = read(report[0], &failure, sizeof failure);
  } while (n < 0 && errno == EINTR);
  close(report[0]);
  if (n != 0) {
    waitpid(pid, nullptr, 0);
    return start_error(failure, p.file);
  }
  int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) {
    int error = errno;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return system_error("watching the engine (pidfd_open, Linux 5.3 or later)", error);
  }
  return std::unique_ptr<EngineProcess>(
      new EngineProcess(loop, pid, pidfd, std::move(command.not_engine)));
}

EngineProcess::EngineProcess(runtime::Loop& loop, pid_t pid, int pidfd, std::set<pid_t> not_engine)
    : loop_(loop),
      pid_(pid),
      exit_fd_(std::make_unique<runtime::Stream>(loop, pidfd)),
      not_engine_(std::move(not_engine)) {}

EngineProcess::~EngineProcess() {
  if (living().empty() && exit_) return;
  kill_tree();
  if (!exit_) waitpid(pid_, nullptr, 0);
  reap_orphans(pid_, not_engine_);
}

std::optional<EngineExit> EngineProcess::reap() {
  if (exit_) return exit_;
  int status = 0;
  pid_t got = waitpid(pid_, &status, WNOHANG);
  if (got == 0 || (got < 0 && errno == EINTR)) return std::nullopt;
  exit_ = EngineExit{};
  if (got == pid_ && WIFEXITED(status)) exit_->exit_code = WEXITSTATUS(status);
  if (got == pid_ && WIFSIGNALED(status)) exit_->signal = WTERMSIG(status);
  return exit_;
}

runtime::Task<EngineExit> EngineProcess::wait() {
  for (;;) {
    if (auto done = reap()) co_return *done;
    runtime::FdReady ready(*exit_fd_, runtime::FdReady::For::read, {});
    co_await ready;
  }
}

std::vector<pid_t> EngineProcess::living() {
  reap_orphans(pid_, not_engine_);
  return living_tree(not_engine_);
}

int EngineProcess::term_tree() {
  std::vector<pid_t> all = living();
  for (pid_t pid : all) kill(pid, SIGTERM);
  return static_cast<int>(all.size());
}

void EngineProcess::kill_tree() {
  agent::kill_tree(not_engine_);
  reap_orphans(pid_, not_engine_);
}

}  // namespace berth::agent
