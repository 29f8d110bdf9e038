#include "agent/hook_isolation.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "runtime/loop.h"

namespace berth::agent {
namespace {

using ::testing::HasSubstr;

// Runs `body` in a child process as an unprivileged user and expects that it returns "".
void as_user(uid_t uid, const std::function<std::string()>& body) {
  int out[2];
  ASSERT_EQ(pipe(out), 0);
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    bool ok = uid == geteuid() || (setgroups(0, nullptr) == 0 && setresgid(uid, uid, uid) == 0 &&
                                   setresuid(uid, uid, uid) == 0);
    std::string text = ok ? body() : "cannot become the user";
    text += "|";
    (void)!write(out[1], text.data(), text.size());
    _exit(0);
  }
  close(out[1]);
  std::string text;
  char buffer[1000];
  for (ssize_t n; (n = read(out[0], buffer, sizeof buffer)) > 0;) text.append(buffer, n);
  close(out[0]);
  waitpid(child, nullptr, 0);
  if (text.starts_with("SKIP")) GTEST_SKIP() << text;
  EXPECT_EQ(text, "|");
}

// A process that enters the namespace and listens on its 127.0.0.1:port, answering one byte.
pid_t listen_inside(const NetNamespace& space, uint16_t port) {
  int ready[2];
  if (pipe(ready) != 0) return -1;
  pid_t pid = fork();
  if (pid == 0) {
    if (space.user_fd() >= 0 && setns(space.user_fd(), CLONE_NEWUSER) != 0) _exit(1);
    if (setns(space.net_fd(), CLONE_NEWNET) != 0) _exit(2);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = htons(port);
    if (bind(fd, reinterpret_cast<sockaddr*>(&a), sizeof a) != 0 || listen(fd, 16) != 0) _exit(3);
    (void)!write(ready[1], "r", 1);
    for (;;) {
      int client = accept(fd, nullptr, nullptr);
      (void)!write(client, "!", 1);
      close(client);
    }
  }
  close(ready[1]);
  char byte;
  ssize_t n = read(ready[0], &byte, 1);
  close(ready[0]);
  return n == 1 ? pid : -1;
}

runtime::Task<std::string> ask(runtime::Loop& loop, NetNamespace& space, uint16_t port) {
  auto stream = co_await connect_inside(loop, space, port);
  if (!stream) co_return stream.error().message;
  auto got = co_await (*stream)->read();
  co_return got.ok() ? std::string(got.view.bytes()) : "no byte";
}

bool reachable_outside(uint16_t port) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  a.sin_port = htons(port);
  bool ok = connect(fd, reinterpret_cast<sockaddr*>(&a), sizeof a) == 0;
  close(fd);
  return ok;
}

std::string check_namespace() {
  auto space = NetNamespace::create();
  if (!space && space.error().code == Code::permission_denied)
    return "SKIP: " + space.error().message;
  if (!space) return space.error().message;
  constexpr uint16_t kPort = 18743;
  if (reachable_outside(kPort)) return "port taken outside";
  pid_t engine = listen_inside(**space, kPort);
  if (engine < 0) return "the engine could not enter the namespace";
  std::string failure;
  {
    runtime::Loop loop;
    // More than one batch of sockets.
    for (int i = 0; i < 40 && failure.empty(); ++i)
      if (std::string got = loop.run_until(ask(loop, **space, kPort)); got != "!") failure = got;
    std::string refused = loop.run_until(ask(loop, **space, kPort + 1));
    if (refused.find("refused") == std::string::npos) failure += " not refused: " + refused;
  }
  if (reachable_outside(kPort)) failure += " reachable from outside";
  kill(engine, SIGKILL);
  waitpid(engine, nullptr, 0);
  return failure;
}

TEST(Isolation, ANamespaceIsReachedOnlyThroughTheAgent) { as_user(geteuid(), check_namespace); }

TEST(Isolation, WorksForAnUnprivilegedUser) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  as_user(65534, check_namespace);
}

TEST(Isolation, TheKeeperOutlivesTheSchedulersSignalsAndDiesWithTheAgent) {
  int pids[2];
  ASSERT_EQ(pipe(pids), 0);
  pid_t agent = fork();
  if (agent == 0) {
    auto space = NetNamespace::create();
    pid_t keeper = space ? (*space)->keeper() : -1;
    if (keeper > 0) {
      kill(keeper, SIGTERM);
      kill(keeper, SIGUSR1);
      for (int i = 0; i < 20; ++i)  // a batch was not fetched before: it answers after the signals
        if (!(*space)->make_socket()) keeper = -2;
    }
    (void)!write(pids[1], &keeper, sizeof keeper);
    raise(SIGKILL);
  }
  close(pids[1]);
  pid_t keeper = 0;
  ASSERT_EQ(read(pids[0], &keeper, sizeof keeper), static_cast<ssize_t>(sizeof keeper));
  waitpid(agent, nullptr, 0);
  // The keeper holds the pipe's write end: end of file means that it is gone.
  char byte;
  EXPECT_EQ(read(pids[0], &byte, 1), 0);
  close(pids[0]);
  if (keeper == -1) GTEST_SKIP() << "no namespaces for this user here";
  EXPECT_GT(keeper, 0);
}

TEST(Isolation, ARefusalNamesTheSettingAndTheWaysOut) {
  Error error = explain_namespace_error("making a user and network namespace", EPERM);
  EXPECT_EQ(error.code, Code::permission_denied);
  EXPECT_THAT(error.message, HasSubstr("Operation not permitted"));
  EXPECT_THAT(error.message, HasSubstr("userns"));
  EXPECT_THAT(error.message, HasSubstr("--isolation loopback"));
  EXPECT_THAT(error.message, HasSubstr("{uds}"));
}

}  // namespace
}  // namespace berth::agent
