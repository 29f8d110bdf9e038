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

// Writes one line into room that is known to be enough: the log is on the path of every request.
class LineWriter {
 public:
  explicit LineWriter(char* room) : p_(room) {}

  void raw(std::string_view text) {
    memcpy(p_, text.data(), text.size());
    p_ += text.size();
  }
  // `name` comes with its punctuation: ",\"model\":".
  void text(std::string_view name, std::string_view value) {
    if (value.empty()) return;
    if (proto::is_json_plain(value)) return plain(name, value);
    raw(name);
    raw(proto::json_quote(value));
  }
  // What needs no escapes: digits, tokens, words of ours.
  void plain(std::string_view name, std::string_view value) {
    if (value.empty()) return;
    raw(name);
    *p_++ = '"';
    raw(value);
    *p_++ = '"';
  }
  void number(std::string_view name, int64_t value) {
    raw(name);
    p_ = std::to_chars(p_, p_ + 24, value).ptr;
  }
  // Most lines share their second with the one before.
  void time(Instant at) {
    thread_local Instant second{};
    thread_local std::string digits;  // "2026-11-30T19:26:05."
    const Instant whole = std::chrono::floor<seconds>(at);
    if (digits.empty() || whole != second) {
      digits = to_rfc3339(whole);
      digits.resize(digits.size() - 4);  // "000Z"
      second = whole;
    }
    raw(digits);
    auto ms = static_cast<int>((at - whole).count());
    for (int unit : {100, 10, 1}) *p_++ = static_cast<char>('0' + ms / unit % 10);
    *p_++ = 'Z';
  }
  char* at() const { return p_; }

 private:
  char* p_;
};

// More than the line can take: escaped, a byte becomes up to six.
size_t room_for(const AccessRecord& r) {
  constexpr size_t kNamesAndNumbers = 640;
  return kNamesAndNumbers +
         6 * (r.id.size() + r.method.size() + r.path.size() + r.end.size() + r.model.size() +
              r.key_id.size() + r.user.size() + r.project.size() + r.replica.size() +
              r.usage_source.size() + r.error.size());
}

char* write_line(char* room, const AccessRecord& r) {
  LineWriter w(room);
  w.raw("{\"at\":\"");
  w.time(r.at);
  w.raw("\"");
  w.plain(",\"id\":", r.id);
  w.plain(",\"method\":", r.method);
  w.text(",\"path\":", r.path);
  w.number(",\"status\":", r.status);
  w.plain(",\"end\":", r.end);
  w.text(",\"model\":", r.model);
  w.text(",\"key\":", r.key_id);
  w.text(",\"user\":", r.user);
  w.text(",\"project\":", r.project);
  w.text(",\"replica\":", r.replica);
  if (r.attempts > 1) w.number(",\"attempts\":", r.attempts);
  if (r.stream) w.raw(",\"stream\":true");
  w.number(",\"bytes_in\":", static_cast<int64_t>(r.bytes_in));
  w.number(",\"bytes_out\":", static_cast<int64_t>(r.bytes_out));
  if (!r.usage_source.empty() && r.usage_source != "none") {
    w.number(",\"prompt_tokens\":", static_cast<int64_t>(r.prompt_tokens));
    w.number(",\"completion_tokens\":", static_cast<int64_t>(r.completion_tokens));
  }
  w.plain(",\"usage\":", r.usage_source);
  if (r.first_us >= 0) w.number(",\"first_us\":", r.first_us);
  w.number(",\"total_us\":", r.total_us);
  w.plain(",\"error\":", r.error);
  w.raw("}\n");
  return w.at();
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

void append_access_line(std::string& out, const AccessRecord& record) {
  char small[4096];
  const size_t room = room_for(record);
  if (room <= sizeof small) {
    out.append(small, write_line(small, record));
  } else {
    std::string large(room, '\0');
    out.append(large.data(), write_line(large.data(), record));
  }
}

}  // namespace berth::gateway
