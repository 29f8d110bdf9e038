#include "gateway/access_log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <charconv>

#include "base/log.h"
#include "proto/json_scan.h"

namespace berth::gateway {

namespace {

constexpr size_t kMaxPending = 16 * 1024 * 1024;

int open_log(const std::string& path) {
  if (path == "-") return fcntl(1, F_DUPFD_CLOEXEC, 3);
  return ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
}

void member(std::string& out, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  out.append(",\"").append(name).append("\":");
  proto::append_json_quoted(out, value);
}

void member(std::string& out, std::string_view name, int64_t value) {
  char text[24];
  auto end = std::to_chars(text, text + sizeof text, value).ptr;
  out.append(",\"").append(name).append("\":").append(text, end);
}

}  // namespace

Result<std::unique_ptr<AccessLog>> AccessLog::open(const std::string& path) {
  int fd = open_log(path);
  if (fd < 0) return system_error("open the access log " + path, errno);
  return std::unique_ptr<AccessLog>(new AccessLog(path, fd));
}

AccessLog::AccessLog(std::string path, int fd)
    : path_(std::move(path)), fd_(fd), thread_([this] { work(); }) {}

AccessLog::~AccessLog() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
  close(fd_);
}

void AccessLog::write(std::string lines) {
  {
    std::lock_guard lock(mutex_);
    if (pending_.size() + lines.size() > kMaxPending) {
      dropped_++;
      return;
    }
    if (pending_.empty()) {
      pending_ = std::move(lines);
    } else {
      pending_ += lines;
    }
  }
  changed_.notify_one();
}

void AccessLog::reopen() {
  {
    std::lock_guard lock(mutex_);
    reopen_ = true;
  }
  changed_.notify_one();
}

void AccessLog::work() {
  bool complained = false;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || reopen_ || !pending_.empty(); });
    std::string lines = std::move(pending_);
    pending_.clear();
    if (dropped_) {
      lines += "{\"dropped_batches\":" + std::to_string(dropped_) + "}\n";
      dropped_ = 0;
    }
    bool again = std::exchange(reopen_, false);
    bool last = stopping_;
    lock.unlock();
    std::string_view rest = lines;
    while (!rest.empty()) {
      ssize_t n = ::write(fd_, rest.data(), rest.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        if (!complained)
          log_error("gateway", "write the access log {}: {}", path_, strerror(errno));
        complained = true;
        break;
      }
      rest.remove_prefix(static_cast<size_t>(n));
    }
    if (again) {
      int fd = open_log(path_);
      if (fd >= 0) close(std::exchange(fd_, fd));
    }
    lock.lock();
    if (last && pending_.empty()) return;
  }
}

void append_access_line(std::string& out, const AccessRecord& r) {
  out.append("{\"at\":\"").append(to_rfc3339(r.at)).append("\"");
  member(out, "id", r.id);
  member(out, "method", r.method);
  member(out, "path", r.path);
  member(out, "status", r.status);
  member(out, "end", r.end);
  member(out, "model", r.model);
  member(out, "key", r.key_id);
  member(out, "user", r.user);
  member(out, "project", r.project);
  member(out, "replica", r.replica);
  if (r.attempts > 1) member(out, "attempts", r.attempts);
  if (r.stream) out.append(",\"stream\":true");
  member(out, "bytes_in", static_cast<int64_t>(r.bytes_in));
  member(out, "bytes_out", static_cast<int64_t>(r.bytes_out));
  if (!r.usage_source.empty() && r.usage_source != "none") {
    member(out, "prompt_tokens", static_cast<int64_t>(r.prompt_tokens));
    member(out, "completion_tokens", static_cast<int64_t>(r.completion_tokens));
  }
  member(out, "usage", r.usage_source);
  if (r.first_us >= 0) member(out, "first_us", r.first_us);
  member(out, "total_us", r.total_us);
  member(out, "error", r.error);
  out.append("}\n");
}

}  // namespace berth::gateway
