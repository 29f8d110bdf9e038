#include "cli/program.h"

#include <fcntl.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>

#include "cli/commands.h"
#include "cli/context.h"
#include "cli/http_api.h"
#include "cli/target.h"

extern char** environ;

namespace berth::cli {
namespace {

volatile std::sig_atomic_t interrupts = 0;

extern "C" void on_interrupt(int) { interrupts = interrupts + 1; }

// From now on Ctrl-C is noticed instead of ending the program: requests stop in order.
void notice_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
}

// True once for each Ctrl-C.
bool take_interrupt() {
  if (interrupts == 0) return false;
  interrupts = 0;
  return true;
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      // Nobody reads on ("berth ps | head"): that is no failure worth words.
      if (fd == STDOUT_FILENO) std::_Exit(errno == EPIPE ? exit_ok : exit_failed);
      return;
    }
    text.remove_prefix(static_cast<size_t>(n));
  }
}

Result<std::string> read_file(const std::string& path) {
  bool standard = path == "-";
  int fd = standard ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return system_error("open " + path, errno);
  std::string text;
  char buffer[16384];
  int failed = 0;
  constexpr size_t kMost = size_t{16} << 20;
  for (;;) {
    ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) failed = errno;
    if (n <= 0) break;
    text.append(buffer, static_cast<size_t>(n));
    if (text.size() > kMost) break;
  }
  if (!standard) ::close(fd);
  if (failed) return system_error("read " + path, failed);
  if (text.size() > kMost) return invalid_argument("read " + path + ": larger than 16 MiB");
  return text;
}

// A line of the terminal. Ctrl-C ends the wait (read fails with EINTR) as the end of input does.
std::optional<std::string> read_line(std::string_view prompt) {
  write_all(STDERR_FILENO, prompt);
  std::string line;
  char c = 0;
  for (;;) {
    ssize_t n = ::read(STDIN_FILENO, &c, 1);
    if (n <= 0) {
      take_interrupt();
      if (n == 0 && !line.empty()) return line;
      return std::nullopt;
    }
    if (c == '\n') return line;
    line += c;
  }
}

std::optional<std::string> read_secret(std::string_view prompt) {
  struct termios before {};
  if (::tcgetattr(STDIN_FILENO, &before) != 0) return read_line(prompt);
  struct termios silent = before;
  silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
  auto line = read_line(prompt);
  ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
  write_all(STDERR_FILENO, "\n");
  return line;
}

// False after Ctrl-C, which ends the pause.
bool pause_for(Duration d) {
  struct timespec rest {};
  rest.tv_sec = d.count() / 1000;
  rest.tv_nsec = d.count() % 1000 * 1'000'000;
  while (::nanosleep(&rest, &rest) != 0 && errno == EINTR)
    if (take_interrupt()) return false;
  return !take_interrupt();
}

std::map<std::string, std::string> environment() {
  std::map<std::string, std::string> out;
  for (char** entry = environ; *entry; ++entry) {
    std::string_view text(*entry);
    size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      out.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  // PWD is what a shell last wrote there; ask.
  if (char* folder = ::getcwd(nullptr, 0)) {
    out["PWD"] = folder;
    std::free(folder);
  }
  return out;
}

Result<std::unique_ptr<HttpApi>> connect_to(const Context& context, Target target) {
  notice_interrupts();
  return HttpApi::make(std::move(target), context.variable("BERTH_CA_FILE"), take_interrupt);
}

}  // namespace

int run_program(int argc, const char* const* argv) {
  ::signal(SIGPIPE, SIG_IGN);
  Context context;
  std::unique_ptr<HttpApi> api, other;
  context.environment = environment();
  context.out = [](std::string_view text) { write_all(STDOUT_FILENO, text); };
  context.err = [](std::string_view text) { write_all(STDERR_FILENO, text); };
  context.read_file = read_file;
  context.read_line = read_line;
  context.read_secret = read_secret;
  context.now = wall_now;
  context.sleep = pause_for;
  context.out_is_terminal = ::isatty(STDOUT_FILENO) == 1;
  context.in_is_terminal = ::isatty(STDIN_FILENO) == 1;
  context.api = [&]() -> Result<Api*> {
    if (!api) {
      auto target = find_target(context.environment);
      if (!target) return std::move(target).error();
      auto made = connect_to(context, std::move(target).value());
      if (!made) return std::move(made).error();
      api = std::move(made).value();
    }
    return api.get();
  };
  context.api_at = [&](const std::string& url, const std::string& key) -> Result<Api*> {
    auto target = parse_url(url);
    if (!target) return std::move(target).error();
    target->key = key;
    auto made = connect_to(context, std::move(target).value());
    if (!made) return std::move(made).error();
    other = std::move(made).value();
    return other.get();
  };
  std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  return run_command(words, context);
}

}  // namespace berth::cli
