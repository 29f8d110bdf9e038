#include "agent/hook_output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <vector>

namespace berth::agent {
namespace {

constexpr size_t kKept = 8 * 1024;
constexpr size_t kLoadingTail = 2000;
constexpr size_t kServingTail = 600;

// Writes all of it; a job output that cannot be written (full disk) must not stop the engine.
void write_all(int fd, const char* data, size_t size) {
  while (size > 0) {
    ssize_t n = write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      pollfd wait{fd, POLLOUT, 0};
      poll(&wait, 1, 1000);
      continue;
    }
    if (n <= 0) return;
    data += n;
    size -= n;
  }
}

void close_fd(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

}  // namespace

std::string last_lines(std::string_view text, size_t bytes) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  if (text.size() > bytes) {
    text = text.substr(text.size() - bytes);
    size_t line = text.find('\n');
    if (line != std::string_view::npos) text.remove_prefix(line + 1);
  }
  std::string out;
  out.reserve(text.size());
  bool in_escape = false;
  for (unsigned char c : text) {
    if (c == 0x1b) {
      in_escape = true;  // colours
    } else if (in_escape) {
      in_escape = !((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'));
    } else if (c == '\n' || c == '\t' || (c >= 0x20 && c != 0x7f)) {
      out += static_cast<char>(c);
    }
  }
  return out;
}

Result<std::unique_ptr<EngineOutput>> EngineOutput::open(int out_fd, int err_fd) {
  std::unique_ptr<EngineOutput> output(new EngineOutput);
  output->pipes_[0].to = out_fd;
  output->pipes_[1].to = err_fd;
  for (Pipe& p : output->pipes_) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return system_error("a pipe for the engine's output", errno);
    p.read_end = ends[0];
    p.engine_end = ends[1];
  }
  if (pipe2(output->wake_, O_CLOEXEC) != 0)
    return system_error("a pipe for the engine's output", errno);
  output->thread_ = std::thread([raw = output.get()] { raw->copy(); });
  return output;
}

EngineOutput::~EngineOutput() {
  close_engine_ends();
  close_fd(wake_[1]);
  if (thread_.joinable()) thread_.join();
  for (Pipe& p : pipes_) close_fd(p.read_end);
  close_fd(wake_[0]);
}

void EngineOutput::close_engine_ends() {
  for (Pipe& p : pipes_) close_fd(p.engine_end);
}

void EngineOutput::copy() {
  std::vector<char> buffer(64 * 1024);
  bool open[2] = {true, true};
  while (open[0] || open[1]) {
    pollfd wait[3] = {{open[0] ? pipes_[0].read_end : -1, POLLIN, 0},
                      {open[1] ? pipes_[1].read_end : -1, POLLIN, 0},
                      {wake_[0], POLLIN, 0}};
    if (poll(wait, 3, -1) < 0) {
      if (errno == EINTR) continue;
      break;
    }
    bool any = false;
    for (int i = 0; i < 2; ++i) {
      if (!wait[i].revents) continue;
      any = true;
      ssize_t n = read(pipes_[i].read_end, buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        open[i] = false;
        continue;
      }
      write_all(pipes_[i].to, buffer.data(), n);
      std::lock_guard lock(mutex_);
      std::string& kept = pipes_[i].kept;
      kept.append(buffer.data(), n);
      if (kept.size() > kKept) kept.erase(0, kept.size() - kKept);
    }
    // Told to end: only once nothing waits in the pipes.
    if (!any && wait[2].revents) break;
  }
  std::lock_guard lock(mutex_);
  done_ = true;
  ended_.notify_all();
}

bool EngineOutput::wait_for_end(Duration limit) {
  std::unique_lock lock(mutex_);
  return ended_.wait_for(lock, limit, [this] { return done_; });
}

std::string EngineOutput::tail(Stage stage) const {
  size_t bytes = stage == Stage::loading ? kLoadingTail : kServingTail;
  std::lock_guard lock(mutex_);
  std::string text = last_lines(pipes_[1].kept, bytes);
  if (text.empty()) text = last_lines(pipes_[0].kept, bytes);
  return text;
}

}  // namespace berth::agent
