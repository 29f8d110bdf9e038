#include "agent/hook_engine.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "agent/hook_isolation.h"
#include "agent/process_tree.h"
#include "runtime/loop.h"

namespace berth::agent {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

class EngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    set_subreaper(Subreaper::yes);
    char pattern[] = "/tmp/bet-XXXXXX";
    folder_ = mkdtemp(pattern);
  }
  void TearDown() override {
    // No orphan may be left for other tests of this process.
    EXPECT_TRUE(eventually([] {
      while (waitpid(-1, nullptr, WNOHANG) > 0) {
      }
      return errno == ECHILD;
    }));
    set_subreaper(Subreaper::no);
    fs::remove_all(folder_);
  }

  Result<std::unique_ptr<EngineProcess>> start(std::vector<std::string> argv,
                                               const NetNamespace* space = nullptr) {
    EngineCommand command;
    command.argv = std::move(argv);
    command.env = {"PATH=/usr/bin:/bin", "D=" + folder_};
    command.space = space;
    if (space) command.not_engine = {space->keeper()};
    return EngineProcess::start(loop_, command);
  }
  std::string read(const std::string& name) {
    std::ifstream file(folder_ + "/" + name);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  // Waits until `name` holds `text`; false after ten seconds.
  bool wait_for(const std::string& name, const std::string& text) {
    return eventually([&] { return read(name).find(text) != std::string::npos; });
  }
  template <class F>
  bool eventually(F predicate) {
    auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!predicate()) {
      if (std::chrono::steady_clock::now() > give_up) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // between looks, bounded above
    }
    return true;
  }

  runtime::Loop loop_;
  std::string folder_;
};

// An engine that writes a line for each SIGTERM and ends after the first.
const char* const kEngine =
    "trap 'echo TERM >> $D/terms; exit 0' TERM; echo up > $D/up; while :; do sleep 0.05; done";

TEST_F(EngineTest, TellsHowItEnded) {
  auto ok = start({"sh", "-c", "exit 3"});
  ASSERT_TRUE(ok) << ok.error().message;
  EngineExit end = loop_.run_until((*ok)->wait());
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_EQ(end.signal, std::nullopt);
  auto killed = start({"sh", "-c", "kill -SEGV $$"});
  ASSERT_TRUE(killed);
  EXPECT_EQ(loop_.run_until((*killed)->wait()).signal, SIGSEGV);
  EXPECT_TRUE((*killed)->living().empty());
}

TEST_F(EngineTest, SaysWhatCannotBeStarted) {
  auto missing = start({"no-such-engine"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::not_found);
  EXPECT_THAT(missing.error().message, HasSubstr("no-such-engine"));
  std::ofstream(folder_ + "/plain") << "x";
  auto denied = start({folder_ + "/plain"});
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().code, Code::permission_denied);
  std::ofstream(folder_ + "/script") << "#!/no/such/python\n";
  fs::permissions(folder_ + "/script", fs::perms::owner_all);
  auto interpreter = start({folder_ + "/script"});
  ASSERT_FALSE(interpreter);
  EXPECT_THAT(interpreter.error().message, HasSubstr("interpreter"));
  EXPECT_FALSE(start({}));
}

// A11: directly.
TEST_F(EngineTest, GetsExactlyOneTerm) {
  auto engine = start({"sh", "-c", kEngine});
  ASSERT_TRUE(engine) << engine.error().message;
  ASSERT_TRUE(wait_for("up", "up"));
  EXPECT_GE((*engine)->term_tree(), 1);
  EXPECT_EQ(loop_.run_until((*engine)->wait()).exit_code, 0);
  EXPECT_TRUE(eventually([&] { return (*engine)->living().empty(); }));
  EXPECT_EQ(read("terms"), "TERM\n");
}

// A11: behind a shell that does nothing on SIGTERM. (One that ignores it would have to do so after
// the engine has started, which inherits what is ignored, and might be too late.)
TEST_F(EngineTest, GetsItsTermBehindAWrapperThatIgnoresIt) {
  std::ofstream(folder_ + "/engine.sh") << kEngine;
  auto wrapped = start({"bash", "-c", "trap : TERM; bash $D/engine.sh & wait; wait"});
  ASSERT_TRUE(wrapped);
  ASSERT_TRUE(wait_for("up", "up"));
  (*wrapped)->term_tree();
  ASSERT_TRUE(wait_for("terms", "TERM"));
  EXPECT_EQ(loop_.run_until((*wrapped)->wait()).exit_code, 0);
  EXPECT_EQ(read("terms"), "TERM\n");
}

// A11: a process that left its group, its session and its parent is still found.
TEST_F(EngineTest, FindsADaemonOfTheTree) {
  std::ofstream(folder_ + "/engine.sh") << kEngine;
  auto engine = start({"bash", "-c", "(setsid bash $D/engine.sh &) ; sleep 1000"});
  ASSERT_TRUE(engine);
  ASSERT_TRUE(wait_for("up", "up"));
  (*engine)->term_tree();
  ASSERT_TRUE(wait_for("terms", "TERM"));
  loop_.run_until((*engine)->wait());
  EXPECT_TRUE(eventually([&] { return (*engine)->living().empty(); }));
  EXPECT_EQ(read("terms"), "TERM\n");
}

TEST_F(EngineTest, KillsATreeThatIgnoresTermAndKeepsForking) {
  auto engine = start({"bash", "-c",
                       "trap '' TERM; for i in 1 2 3; do (trap '' TERM; while :; do sleep 0.01; "
                       "done) & done; setsid sleep 1000 & echo up > $D/up; wait"});
  ASSERT_TRUE(engine);
  ASSERT_TRUE(wait_for("up", "up"));
  (*engine)->term_tree();
  EXPECT_FALSE((*engine)->living().empty());
  (*engine)->kill_tree();
  EXPECT_EQ(loop_.run_until((*engine)->wait()).signal, SIGKILL);
  EXPECT_TRUE(eventually([&] { return (*engine)->living().empty(); }));
}

TEST_F(EngineTest, ItsEndTakesTheTreeWithIt) {
  pid_t pid = 0;
  {
    auto engine = start({"bash", "-c", "setsid sleep 1000 & echo $! > $D/pid; wait"});
    ASSERT_TRUE(engine);
    ASSERT_TRUE(wait_for("pid", "\n"));
    pid = std::stoi(read("pid"));
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_NE(kill(pid, 0), 0);
}

TEST_F(EngineTest, HasNoDescriptorsButThree) {
  int leak = open("/dev/null", O_RDONLY);  // without CLOEXEC
  auto engine = start({"sh", "-c", "ls /proc/self/fd > $D/fds"});
  ASSERT_TRUE(engine);
  loop_.run_until((*engine)->wait());
  close(leak);
  EXPECT_EQ(read("fds"), "0\n1\n2\n3\n");  // 3 is ls reading the folder
}

TEST_F(EngineTest, RunsInsideTheNamespace) {
  auto space = NetNamespace::create();
  if (!space) GTEST_SKIP() << space.error().message;
  auto engine = start({"sh", "-c", "cat /proc/net/dev > $D/net; id -u > $D/uid"}, space->get());
  ASSERT_TRUE(engine) << engine.error().message;
  EXPECT_EQ(loop_.run_until((*engine)->wait()).exit_code, 0);
  EXPECT_THAT(read("net"), HasSubstr("lo:"));
  EXPECT_THAT(read("net"), Not(HasSubstr("eth")));
  EXPECT_EQ(read("uid"), std::to_string(geteuid()) + "\n");
  EXPECT_TRUE((*engine)->living().empty());  // the keeper is not the engine's
  EXPECT_EQ(kill((*space)->keeper(), 0), 0);
}

// A03: proxies are the engine's business; Berth's credentials are not.
TEST(EngineEnvironment, PassesProxiesAndHidesCredentials) {
  const char* own[] = {"http_proxy=http://127.0.0.1:9",
                       "BERTH_KEY=secret",
                       "TMPDIR=/long",
                       "BERTH_URL=http://x",
                       "ODD",
                       nullptr};
  auto env = engine_environment(const_cast<char**>(own), {{"TMPDIR", "/tmp/berth-x/tmp"}});
  EXPECT_THAT(env, Contains("http_proxy=http://127.0.0.1:9"));
  EXPECT_THAT(env, Contains("TMPDIR=/tmp/berth-x/tmp"));
  EXPECT_THAT(env, Not(Contains("TMPDIR=/long")));
  EXPECT_THAT(env, Not(Contains(HasSubstr("secret"))));
}

}  // namespace
}  // namespace berth::agent
