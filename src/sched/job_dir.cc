#include "sched/job_dir.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"

namespace berth::sched {
namespace {

constexpr size_t kLargestFile = size_t{16} << 20;

Status flush_folder(const std::string& path) {
  std::string folder = path.substr(0, path.rfind('/'));
  int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return system_error("open " + folder, errno);
  int result = fsync(fd), error = errno;
  close(fd);
  if (result != 0) return system_error("flush " + folder, error);
  return {};
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

template <class T>
void put(Json& document, const char* name, const std::optional<T>& value) {
  if (value) document[name] = *value;
}
void put(Json& document, const char* name, const std::optional<Instant>& value) {
  if (value) document[name] = to_ms(*value);
}
void put(Json& document, const char* name, const std::optional<Duration>& value) {
  if (value) document[name] = value->count();
}

template <class T>
std::optional<T> get(const Json& document, const char* name) {
  auto it = document.find(name);
  if (it == document.end()) return std::nullopt;
  return it->get<T>();
}
std::optional<Instant> get_time(const Json& document, const char* name) {
  auto ms = get<int64_t>(document, name);
  return ms ? std::optional(from_ms(*ms)) : std::nullopt;
}

JobState parse_state(const std::string& text) {
  for (JobState state : {JobState::completed, JobState::failed, JobState::cancelled,
                         JobState::timed_out, JobState::node_failed})
    if (text == to_string(state)) return state;
  return JobState::unknown;
}

// Reads one file of the folder by `convert`, which may throw nlohmann's exceptions.
template <class T>
Result<std::optional<T>> read_document(const std::string& path,
                                       const std::function<T(const Json&)>& convert) {
  auto text = read_whole(path);
  if (!text) return text.error();
  if (!*text) return std::optional<T>();
  auto document = parse_json(**text);
  if (!document) return Error(document.error()).wrap(path);
  try {
    return std::optional<T>(convert(*document));
  } catch (const Json::exception& e) {
    return internal_error(fmt::format("{}: not as Berth writes it: {}", path, e.what()));
  }
}

Status write_document(const std::string& path, const Json& document) {
  return write_whole(path, dump_json(document) + "\n", 0600);
}

ProcessMark mark_from(const Json& d) {
  return {d.at("pid").get<pid_t>(), d.at("start_ticks").get<uint64_t>()};
}

}  // namespace

Status write_whole(const std::string& path, std::string_view text, mode_t mode) {
  std::string temporary = fmt::format("{}.new.{}", path, getpid());
  int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd < 0) return system_error("write " + temporary, errno);
  bool good = write_all(fd, text) && fsync(fd) == 0;
  int error = errno;
  close(fd);
  if (good && rename(temporary.c_str(), path.c_str()) == 0) return flush_folder(path);
  if (good) error = errno;
  unlink(temporary.c_str());
  return system_error("write " + path, error);
}

Result<std::optional<std::string>> read_whole(const std::string& path) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return std::optional<std::string>();
  if (fd < 0) return system_error("read " + path, errno);
  std::string text;
  char buffer[8192];
  ssize_t n = 0;
  while ((n = read(fd, buffer, sizeof buffer)) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 || text.size() > kLargestFile) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  int error = errno;
  close(fd);
  if (n < 0) return system_error("read " + path, error);
  if (n > 0) return internal_error(path + ": larger than any file of a job");
  return std::optional(std::move(text));
}

std::string JobDir::file(std::string_view name) const { return fmt::format("{}/{}", path_, name); }

Result<std::optional<LocalJobSpec>> JobDir::read_spec() const {
  return read_document<LocalJobSpec>(file("spec"), [](const Json& d) {
    LocalJobSpec s;
    s.id = d.at("id");
    s.key = d.at("key");
    s.user = d.at("user");
    s.uid = d.at("uid");
    s.account = d.at("account");
    s.submitted_at = from_ms(d.at("submitted_at").get<int64_t>());
    s.log_path = d.at("log_path");
    s.work_dir = d.at("work_dir");
    s.env = d.at("env").get<std::vector<std::string>>();
    if (auto ms = get<int64_t>(d, "time_limit_ms")) s.time_limit = Duration(*ms);
    s.signal_lead = Duration(d.at("signal_lead_ms").get<int64_t>());
    s.kill_wait = Duration(d.at("kill_wait_ms").get<int64_t>());
    s.max_running = d.at("max_running");
    return s;
  });
}

Status JobDir::write_spec(const LocalJobSpec& s) const {
  Json d = {{"id", s.id},
            {"key", s.key},
            {"user", s.user},
            {"uid", s.uid},
            {"account", s.account},
            {"submitted_at", to_ms(s.submitted_at)},
            {"log_path", s.log_path},
            {"work_dir", s.work_dir},
            {"env", s.env},
            {"signal_lead_ms", s.signal_lead.count()},
            {"kill_wait_ms", s.kill_wait.count()},
            {"max_running", s.max_running}};
  put(d, "time_limit_ms", s.time_limit);
  return write_document(file("spec"), d);
}

Result<std::optional<ProcessMark>> JobDir::read_shim() const {
  return read_document<ProcessMark>(file("shim"), mark_from);
}

Status JobDir::write_shim(const ProcessMark& shim) const {
  return write_document(file("shim"), {{"pid", shim.pid}, {"start_ticks", shim.start_ticks}});
}

Result<std::optional<LocalJobStart>> JobDir::read_start() const {
  return read_document<LocalJobStart>(file("started"), [](const Json& d) {
    return LocalJobStart{mark_from(d), from_ms(d.at("at").get<int64_t>())};
  });
}

Status JobDir::write_start(const LocalJobStart& start) const {
  return write_document(
      file("started"),
      {{"pid", start.main.pid}, {"start_ticks", start.main.start_ticks}, {"at", to_ms(start.at)}});
}

Result<std::optional<LocalJobCancel>> JobDir::read_cancel() const {
  return read_document<LocalJobCancel>(file("cancel"), [](const Json& d) {
    bool kill = d.at("how").get<std::string>() == "kill";
    return LocalJobCancel{kill ? LocalJobCancel::How::kill : LocalJobCancel::How::polite,
                          d.at("uid").get<uint32_t>()};
  });
}

Status JobDir::write_cancel(const LocalJobCancel& cancel) const {
  bool kill = cancel.how == LocalJobCancel::How::kill;
  return write_document(file("cancel"), {{"how", kill ? "kill" : "polite"}, {"uid", cancel.uid}});
}

Result<std::optional<LocalJobStatus>> JobDir::read_status() const {
  return read_document<LocalJobStatus>(file("status"), [](const Json& d) {
    LocalJobStatus s;
    s.state = parse_state(d.at("state"));
    s.exit_code = get<int>(d, "exit_code");
    s.signal = get<int>(d, "signal");
    s.cancelled_by_uid = get<uint32_t>(d, "cancelled_by_uid");
    s.started_at = get_time(d, "started_at");
    s.ended_at = from_ms(d.at("ended_at").get<int64_t>());
    s.reason = d.at("reason");
    return s;
  });
}

Status JobDir::write_status(const LocalJobStatus& s) const {
  Json d = {{"state", to_string(s.state)}, {"ended_at", to_ms(s.ended_at)}, {"reason", s.reason}};
  put(d, "exit_code", s.exit_code);
  put(d, "signal", s.signal);
  put(d, "cancelled_by_uid", s.cancelled_by_uid);
  put(d, "started_at", s.started_at);
  return write_document(file("status"), d);
}

Result<std::optional<FileLock>> FileLock::take(const std::string& path, Wait wait) {
  int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return system_error("open " + path, errno);
  FileLock lock(fd);
  while (flock(fd, LOCK_EX | (wait == Wait::no ? LOCK_NB : 0)) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) return std::optional<FileLock>();
    return system_error("lock " + path, errno);
  }
  return std::optional<FileLock>(std::move(lock));
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}
FileLock::~FileLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace berth::sched
