#include "runtime/subprocess.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace berth::runtime {
namespace {

using std::chrono::milliseconds;

ChildCommand shell(std::string script) {
  ChildCommand c;
  c.argv = {"/bin/sh", "-c", std::move(script)};
  c.env = {"PATH=/usr/bin:/bin", "ONLY=this"};
  return c;
}

TEST(RunToEnd, GivesStatusAndBothOutputs) {
  Loop loop;
  auto r = loop.run_until(run_to_end(loop, shell("echo out; echo err >&2; exit 3")));
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->out, "out\n");
  EXPECT_EQ(r->err, "err\n");
  EXPECT_EQ(r->status.code, 3);
  EXPECT_FALSE(r->timed_out);
  auto killed = loop.run_until(run_to_end(loop, shell("kill -9 $$")));
  EXPECT_EQ(killed->status.signal, SIGKILL);
  EXPECT_EQ(killed->status.to_string(), "signal 9 (Killed)");
}

TEST(RunToEnd, PassesExactlyTheEnvironmentAndNoDescriptors) {
  setenv("http_proxy", "http://127.0.0.1:9", 1);
  int leak = open("/dev/null", O_RDONLY);  // not close-on-exec
  Loop loop;
  ChildCommand c = shell("env | grep -v '^_=' | grep -v ^PWD= | sort; ls /proc/$$/fd");
  auto r = loop.run_until(run_to_end(loop, std::move(c)));
  close(leak);
  unsetenv("http_proxy");
  EXPECT_EQ(r->out, "ONLY=this\nPATH=/usr/bin:/bin\n0\n1\n2\n");
}

TEST(RunToEnd, FeedsStandardInput) {
  Loop loop;
  ChildCommand c = shell("wc -c");
  c.stdin_bytes.assign(1'000'000, 'x');
  EXPECT_EQ(std::stoi(loop.run_until(run_to_end(loop, std::move(c)))->out), 1'000'000);
  ChildCommand ignores = shell("exec 0<&-; echo done");
  ignores.stdin_bytes.assign(1'000'000, 'x');
  EXPECT_EQ(loop.run_until(run_to_end(loop, std::move(ignores)))->out, "done\n");
}

TEST(RunToEnd, KillsTheWholeGroupAtTheDeadline) {
  Loop loop;
  ChildCommand c = shell("trap '' TERM; echo begun; (sleep 600) & sleep 600");
  c.deadline = milliseconds(300);
  auto begin = std::chrono::steady_clock::now();
  auto r = loop.run_until(run_to_end(loop, std::move(c)));
  EXPECT_TRUE(r->timed_out);
  EXPECT_EQ(r->status.signal, SIGKILL);
  EXPECT_EQ(r->out, "begun\n");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(5));
}

TEST(RunToEnd, CapsOutputAndSaysSo) {
  Loop loop;
  ChildCommand c = shell("yes | head -c 100000");
  c.max_stdout = 1000;
  auto r = loop.run_until(run_to_end(loop, std::move(c)));
  EXPECT_EQ(r->out.size(), 1000u);
  EXPECT_TRUE(r->out_truncated);
  EXPECT_TRUE(r->status.success());
}

TEST(RunToEnd, SaysWhyItCouldNotStart) {
  Loop loop;
  ChildCommand c;
  c.argv = {"no-such-command-of-berth"};
  c.env = {"PATH=/usr/bin:/bin"};
  auto r = loop.run_until(run_to_end(loop, c));
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, Code::not_found);
  c.argv = {"/etc/passwd"};
  r = loop.run_until(run_to_end(loop, c));
  EXPECT_EQ(r.error().code, Code::permission_denied);
  c.argv = {"/bin/true"};
  c.cwd = "/nonexistent";
  r = loop.run_until(run_to_end(loop, c));
  EXPECT_NE(r.error().message.find("change directory"), std::string::npos);
}

Task<std::string> child_facts(Loop& loop, ProcessOptions options) {
  int ends[2];
  CHECK(pipe2(ends, O_CLOEXEC) == 0);
  options.stdout_fd = ends[1];
  auto process = Process::start(loop, options);
  close(ends[1]);
  CHECK(process.ok());
  auto reader = std::make_unique<Stream>(loop, ends[0]);
  std::string out;
  for (;;) {
    ReadResult got = co_await reader->read();
    if (!got.ok()) break;
    out.append(got.view.bytes());
  }
  auto status = co_await (*process)->wait();
  CHECK(status && status->success());
  co_return out;
}

TEST(Process, SetsUpWhatWasAsked) {
  Loop loop;
  sigset_t mask, old;
  sigemptyset(&mask);
  sigaddset(&mask, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &mask, &old);
  ProcessOptions o;
  o.argv = {"/bin/sh", "-c",
            "umask; ulimit -n; pwd; grep -E '^Sig(Blk|Ign)' /proc/self/status | cut -f2;"
            "set -- $(cat /proc/$$/stat); [ $6 = $$ ] && echo leads"};
  o.env = {"PATH=/usr/bin:/bin"};
  o.cwd = "/usr";
  o.group = ProcessGroup::session;
  o.umask = 0027;
  o.limits = {{RLIMIT_NOFILE, {77, 77}}};
  std::string out = loop.run_until(child_facts(loop, o));
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  EXPECT_EQ(out, "0027\n77\n/usr\n0000000000000000\n0000000000000000\nleads\n");
}

Task<bool> wait_is_bounded(Loop& loop, Process& process) {
  Deadline deadline(loop);
  deadline.set_after(milliseconds(20));
  Wait wait{nullptr, &deadline};
  auto status = co_await process.wait(wait);
  co_return !status.has_value();
}
Task<std::optional<ExitStatus>> wait_for(Process& process) { co_return co_await process.wait(); }

TEST(Process, CanBeWaitedForAgainAndSignalled) {
  Loop loop;
  ProcessOptions o;
  o.argv = {"/bin/sleep", "600"};
  auto process = std::move(Process::start(loop, o)).value();
  EXPECT_TRUE(loop.run_until(wait_is_bounded(loop, *process)));
  EXPECT_TRUE(process->running());
  EXPECT_TRUE(process->signal_group(SIGTERM));
  auto status = loop.run_until(wait_for(*process));
  ASSERT_TRUE(status);
  EXPECT_EQ(status->signal, SIGTERM);
  EXPECT_EQ(loop.run_until(wait_for(*process))->signal, SIGTERM);
}

TEST(Process, TheDestructorKills) {
  Loop loop;
  ProcessOptions o;
  o.argv = {"/bin/sleep", "600"};
  auto process = std::move(Process::start(loop, o)).value();
  pid_t pid = process->pid();
  process.reset();
  EXPECT_EQ(kill(pid, 0), -1);
}

}  // namespace
}  // namespace berth::runtime
