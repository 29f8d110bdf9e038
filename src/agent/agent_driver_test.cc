#include "agent/agent_driver.h"

#include "agent/agent_rig.h"

namespace berth::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(AgentTest, ServesThroughTheFrontAndEndsInOrderOnTerm) {
  options.engine_argv = engine({"--uds", "{uds}"});
  start();
  ASSERT_TRUE(until_told("ready"));
  ASSERT_TRUE(until([&] { return control.dialled != 0; }));
  EXPECT_EQ(control.dialled, 200);
  EXPECT_EQ(control.credential, "Bearer user-key");
  EXPECT_EQ(control.last.served_model, "fake");
  EXPECT_EQ(control.last.context_length, 4096);
  EXPECT_THAT(control.registration.address, ::testing::StartsWith("127.0.0.1:"));
  EXPECT_EQ(workspaces(), 1);

  auto headers = ask(control.front("POST", "/v1/completions", R"({"prompt":"headers"})"));
  EXPECT_EQ(headers.status, 200);
  EXPECT_THAT(headers.body, Not(HasSubstr("authorization")));
  EXPECT_EQ(ask(control.front("POST", "/secret-route", "{}")).status, 404);
  EXPECT_EQ(ask(control.front("GET", "/v1/models", "")).status, 404);
  auto stranger = control.front("POST", "/v1/completions", "{}");
  stranger.fields = "Authorization: Bearer " + std::string(48, 'x') + "\r\n";
  EXPECT_EQ(ask(stranger).status, 401);
  stranger.fields.clear();
  EXPECT_EQ(ask(stranger).status, 401);

  // A stream in flight when SIGTERM comes is finished; a new request is not taken.
  auto opened = loop.run_until(http::open_exchange(
      loop,
      control.front("POST", "/v1/completions", R"({"prompt":"hold )" + folder_ + R"(/go-on"})")));
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  std::string stream = *loop.run_until((*opened)->next());
  kill(pid_, SIGTERM);
  ASSERT_TRUE(until_told("draining"));
  ASSERT_TRUE(
      until([&] { return read("agent.log").find("no new requests") != std::string::npos; }));
  auto refused = ask(control.front("POST", "/v1/completions", "{}"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.field("x-berth-draining"), "1");
  EXPECT_EQ(count(read("engine.log"), "TERM"), 0) << "SIGTERM while a request is in flight";
  std::ofstream(folder_ + "/go-on").close();
  for (;;) {
    auto piece = loop.run_until((*opened)->next());
    ASSERT_TRUE(piece.ok()) << piece.error().message;
    if (piece->empty()) break;
    stream += *piece;
  }
  EXPECT_EQ(count(stream, "data: "), 3);
  EXPECT_THAT(stream, HasSubstr("[DONE]"));
  EXPECT_EQ(exit_status(), lifecycle::kExitCancelled);
  EXPECT_EQ(count(read("engine.log"), "TERM"), 1);
  EXPECT_THAT(control.told, ElementsAre("register", "ready", "draining", "end"));
  EXPECT_EQ(control.end->cause, EndCause::cancelled);
  EXPECT_EQ(control.end->exit_code, 0);
  EXPECT_EQ(workspaces(), 0);
  EXPECT_THAT(read("agent.log"), Not(HasSubstr(control.registration.secret)));
  EXPECT_THAT(read("agent.log"), Not(HasSubstr("user-key")));
}

TEST_F(AgentTest, ATcpEngineLivesInAPrivateNetwork) {
  options.engine_argv = engine({"--port", "{port}"});
  start();
  if (!until_told("ready")) return;
  auto answer = ask(control.front("POST", "/v1/completions", R"({"prompt":"1"})"));
  EXPECT_EQ(answer.status, 200);
  // Nothing of it can be reached from here.
  runtime::Address outside = runtime::Address::loopback(8000);
  auto direct = control.front("GET", "/v1/models", "");
  direct.address = outside;
  auto reached = loop.run_until(http::fetch(loop, direct));
  EXPECT_TRUE(!reached || reached->body.find("\"fake\"") == std::string::npos);
  kill(pid_, SIGUSR1);
  EXPECT_EQ(exit_status(), 0);
  EXPECT_EQ(control.end->cause, EndCause::completed);
}

// Two users on one node, at the level of the agent: alice's engine, bob's eyes.
TEST_F(AgentTest, AnUnprivilegedUsersEngineIsOutOfReachOfOthers) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become other users";
  constexpr uid_t kAlice = 64101, kBob = 64102;
  options.engine_argv = engine({"--port", "{port}"});
  start(kAlice);
  ASSERT_TRUE(until([&] {
    return (!control.told.empty() && control.told.back() == "ready") ||
           waitpid(pid_, nullptr, WNOHANG) != 0;
  }));
  if (control.told.empty()) {
    pid_ = -1;
    ASSERT_THAT(read("agent.log"), HasSubstr("--isolation loopback"));
    GTEST_SKIP() << "no user namespaces here: " << read("agent.log");
  }
  EXPECT_EQ(ask(control.front("POST", "/v1/completions", "{}")).status, 200);
  pid_t bob = fork();
  if (bob == 0) {
    if (setgroups(0, nullptr) != 0 || setresuid(kBob, kBob, kBob) != 0) _exit(9);
    for (const auto& entry : fs::directory_iterator(folder_)) {
      std::error_code error;
      fs::directory_iterator inside(entry.path(), error);
      if (entry.is_directory() && !error) _exit(1);  // the workspace can be read
    }
    // Entering the engine's network through /proc.
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      std::ifstream comm("/proc/" + name + "/comm");
      std::string text;
      comm >> text;
      if (text == "berth-netns" && open(("/proc/" + name + "/ns/net").c_str(), O_RDONLY) >= 0)
        _exit(2);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(bob, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  kill(pid_, SIGTERM);
  EXPECT_EQ(exit_status(), lifecycle::kExitCancelled);
}

TEST_F(AgentTest, AnEngineThatDiesIsReportedWithItsLastWords) {
  options.engine_argv = engine({"--uds", "{uds}"});
  start();
  ASSERT_TRUE(until_told("ready"));
  (void)loop.run_until(
      http::fetch(loop, control.front("POST", "/v1/completions", R"({"prompt":"crash"})")));
  EXPECT_EQ(exit_status(), lifecycle::kExitCrashed);
  ASSERT_TRUE(control.end);
  EXPECT_EQ(control.end->cause, EndCause::crashed);
  EXPECT_EQ(control.end->exit_code, 3);
  EXPECT_THAT(control.end->detail, HasSubstr("told to crash"));
  EXPECT_THAT(read("agent.log"), HasSubstr("RuntimeError"));  // the job's output has it too
}

TEST_F(AgentTest, AnEngineThatDoesNotLoadIsReportedAtOnce) {
  options.engine_argv = engine({"--uds", "{uds}", "--fail"});
  start();
  EXPECT_EQ(exit_status(), lifecycle::kExitFailedToLoad) << read("agent.log");
  ASSERT_TRUE(control.end);
  EXPECT_EQ(control.end->cause, EndCause::failed_to_load);
  EXPECT_THAT(control.end->detail, HasSubstr("ValueError: no such model"));
}

TEST_F(AgentTest, ADirectiveDrains) {
  options.engine_argv = engine({"--uds", "{uds}", "--load", "0.2"});
  start();
  ASSERT_TRUE(until_told("ready"));
  control.drain = true;
  EXPECT_EQ(exit_status(), 0);
  EXPECT_EQ(control.end->cause, EndCause::stopped);
  EXPECT_THAT(control.end->detail, HasSubstr("scaled down"));
}

TEST_F(AgentTest, RegistersAgainWhenBerthForgot) {
  options.engine_argv = engine({"--uds", "{uds}"});
  start();
  ASSERT_TRUE(until_told("ready"));
  control.lease = "another";
  ASSERT_TRUE(until([&] { return control.registrations == 2; }));
  ASSERT_TRUE(until_told("ready"));
  kill(pid_, SIGTERM);
  EXPECT_EQ(exit_status(), lifecycle::kExitCancelled);
}

TEST_F(AgentTest, ARefusedRegistrationEnds) {
  control.refuse_with = 403;
  options.engine_argv = engine({"--uds", "{uds}"});
  start();
  EXPECT_EQ(exit_status(), lifecycle::kExitRefused);
  EXPECT_THAT(read("agent.log"), HasSubstr("not yours"));
}

// A03
TEST_F(AgentTest, UsesNoProxyAndHandsThemToTheEngine) {
  auto proxy = runtime::Listener::open(loop, runtime::Address::loopback(0));
  ASSERT_TRUE(proxy.ok());
  std::string url = "http://" + (*proxy)->address().to_string();
  for (const char* name : {"http_proxy", "https_proxy", "HTTP_PROXY", "ALL_PROXY"})
    setenv(name, url.c_str(), 1);
  setenv("BERTH_KEY", "in-the-environment", 1);
  options.engine_argv = {"sh", "-c",
                         "env > " + folder_ + "/env; exec python3 " + kEngine + " --uds {uds}"};
  start();
  for (const char* name : {"http_proxy", "https_proxy", "HTTP_PROXY", "ALL_PROXY", "BERTH_KEY"})
    unsetenv(name);
  ASSERT_TRUE(until_told("ready"));
  EXPECT_EQ(ask(control.front("POST", "/v1/completions", "{}")).status, 200);
  EXPECT_EQ((*proxy)->try_accept(), nullptr);
  EXPECT_THAT(read("env"), HasSubstr("http_proxy=" + url));
  EXPECT_THAT(read("env"), Not(HasSubstr("in-the-environment")));
  EXPECT_THAT(read("env"), HasSubstr("TMPDIR=" + folder_ + "/berth-"));
  EXPECT_THAT(read("env"), HasSubstr("RAY_TMPDIR=" + folder_ + "/berth-"));
  kill(pid_, SIGTERM);
  EXPECT_EQ(exit_status(), lifecycle::kExitCancelled);
}

// The scheduler signals every process of the job: the engine must not get a second SIGTERM.
TEST_F(AgentTest, ASignalToTheWholeJobIsOneTermForTheEngine) {
  options.engine_argv = engine({"--uds", "{uds}"});
  start();
  ASSERT_TRUE(until_told("ready"));
  auto opened = loop.run_until(http::open_exchange(
      loop, control.front("POST", "/v1/completions", R"({"prompt":"count 10 50"})")));
  ASSERT_TRUE(opened.ok());
  // As slurmstepd does: each process of the job, found from the first one on.
  std::vector<pid_t> job{pid_};
  for (size_t i = 0; i < job.size(); ++i)
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::string name = entry.path().filename();
      std::ifstream stat("/proc/" + name + "/stat");
      std::string line;
      if (name.find_first_not_of("0123456789") != std::string::npos || !std::getline(stat, line))
        continue;
      std::istringstream rest(line.substr(line.rfind(')') + 2));
      char state;
      pid_t parent = 0;
      rest >> state >> parent;
      if (parent == job[i]) job.push_back(std::stoi(name));
    }
  EXPECT_GE(job.size(), 3u);  // agent, witness, engine
  for (pid_t pid : job) kill(pid, SIGTERM);
  EXPECT_EQ(exit_status(), lifecycle::kExitCancelled);
  EXPECT_EQ(count(read("engine.log"), "TERM"), 1);
}

}  // namespace
}  // namespace berth::agent
