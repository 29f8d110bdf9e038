// For tests of the whole agent: a control server in this process, and the agent in a child with a
// scripted engine (fake_engine.py), real signals and real namespaces.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "agent/agent.h"
#include "base/json.h"
#include "http/client.h"
#include "http/server.h"
#include "lifecycle/stop_cause.h"
#include "proto/control.h"
#include "runtime/loop.h"

namespace berth::agent {

using runtime::Loop;
using runtime::Task;
namespace fs = std::filesystem;

inline const char* const kEngine = BERTH_SOURCE_DIR "/src/agent/fake_engine.py";

// Answers as Berth does and remembers what it was told.
class ControlFake final : public http::Service {
 public:
  explicit ControlFake(Loop& loop) : loop_(loop), server_(loop, *this) {
    auto listener = runtime::Listener::open(loop, runtime::Address::loopback(0));
    CHECK(listener.ok());
    url = "http://" + (*listener)->address().to_string();
    server_.listen(std::move(listener).value());
  }

  Task<void> serve(http::Exchange& x) override;
  http::Response error_response(int status, std::string_view) override {
    http::Response r;
    r.status = status;
    return r;
  }

  Task<int> dial_back() {
    auto request = front("GET", "/berth/ready", "");
    auto answer = co_await http::fetch(loop_, request);
    co_return answer ? answer->status : -1;
  }
  // A request to the agent's front, as the gateway sends it.
  http::ClientRequest front(std::string method, std::string target, std::string body) const {
    http::ClientRequest r;
    r.address = *runtime::Address::parse(registration.address);
    r.method = std::move(method);
    r.target = std::move(target);
    r.fields = "Authorization: Bearer " + registration.secret + "\r\n";
    r.body = std::move(body);
    return r;
  }

  std::string url;
  std::vector<std::string> told;
  proto::RegisterRequest registration;
  std::string credential, lease;
  proto::HeartbeatRequest last;
  std::optional<proto::EndReport> end;
  int registrations = 0, dialled = 0, refuse_with = 0;
  bool drain = false;

 private:
  Loop& loop_;
  http::Server server_;
};

class AgentTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access("/usr/bin/python3", X_OK) != 0) GTEST_SKIP() << "no python3 for the fake engine";
    char pattern[] = "/tmp/bat-XXXXXX";
    folder_ = mkdtemp(pattern);
    fs::permissions(folder_, fs::perms::all);
    options.service = "fake";
    options.url = control.url;
    options.key = "user-key";
    options.workspace_root = folder_;
    options.drain_grace = seconds(20);
  }
  void TearDown() override {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  std::string log_path() const { return folder_ + "/engine.log"; }
  std::vector<std::string> engine(std::vector<std::string> more) const {
    std::vector<std::string> argv = {"python3", kEngine, "--log", log_path()};
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
  }
  void start(uid_t uid = geteuid()) {
    pid_ = fork();
    if (pid_ == 0) {
      int out = open((folder_ + "/agent.log").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0666);
      dup2(out, 1);
      dup2(out, 2);
      setsid();
      if (uid != geteuid() && (setgroups(0, nullptr) != 0 || setresgid(uid, uid, uid) != 0 ||
                               setresuid(uid, uid, uid) != 0))
        _exit(99);
      _exit(run_agent(options));
    }
  }
  // Lets the control server work until `predicate`; false after 20 s.
  template <class F>
  bool until(F predicate) {
    return loop.run_until(wait_for(loop, predicate));
  }
  template <class F>
  static Task<bool> wait_for(Loop& loop, F& predicate) {
    runtime::MonoTime give_up = loop.now() + seconds(20);
    while (!predicate()) {
      if (loop.now() > give_up) co_return false;
      co_await runtime::sleep_for(loop, milliseconds(5));  // between looks, bounded above
    }
    co_return true;
  }
  bool until_told(const std::string& what) {
    bool ok = until([&] { return !control.told.empty() && control.told.back() == what; });
    if (!ok) ADD_FAILURE() << "not told \"" << what << "\"; agent's log:\n" << read("agent.log");
    return ok;
  }
  // The agent's exit status; -1: still there after 20 s; 1000 + n: killed by signal n.
  int exit_status() {
    int status = 0;
    bool ended = until([&] { return waitpid(pid_, &status, WNOHANG) == pid_; });
    if (!ended) return -1;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  std::string read(const std::string& name) const {
    std::ifstream file(folder_ + "/" + name);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  int count(const std::string& text, const std::string& what) const {
    int n = 0;
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++n;
    return n;
  }
  int workspaces() const {
    int n = 0;
    for (const auto& entry : fs::directory_iterator(folder_))
      n += entry.path().filename().string().starts_with("berth-");
    return n;
  }
  http::ClientResponse ask(const http::ClientRequest& request) {
    auto answer = loop.run_until(http::fetch(loop, request));
    EXPECT_TRUE(answer.ok()) << (answer ? "" : answer.error().message);
    return answer ? *answer : http::ClientResponse{};
  }

  Loop loop;
  ControlFake control{loop};
  AgentOptions options;
  std::string folder_;
  pid_t pid_ = -1;
};

}  // namespace berth::agent
