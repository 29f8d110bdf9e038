// The files of one local job: jobs/KEY/ under the state directory, shared by the local scheduler
// and the job's shim.
//
//   spec      what was asked for; written before the job is known to anybody, never changed
//   script    the batch script, executable by its owner only
//   lock      flock(2)ed by the shim as long as it lives: whoever gets the lock knows it is gone.
//             A lock cannot be mistaken as a recorded pid can.
//   shim      the shim's pid and start time
//   started   the job's main process and when it began; absent while the job waits for a slot
//   cancel    who asked for the job's end and how; absent: nobody
//   status    how the job ended; the last file written
//
// Files are written whole (a new file renamed over the old one) and flushed, so that a crash at any
// point leaves the old or the new text. Threading: any. Errors: Result, with the path.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/job.h"

namespace berth::sched {

struct LocalJobSpec {
  uint64_t id = 0;
  std::string key;
  std::string user;
  uint32_t uid = 0;
  std::string account;
  Instant submitted_at{};
  std::string log_path;
  std::string work_dir;
  std::vector<std::string> env;  // "NAME=value": the job's whole environment
  std::optional<Duration> time_limit;
  Duration signal_lead{};  // SIGUSR1 this long before the time limit; 0: none
  Duration kill_wait{};    // from SIGTERM to SIGKILL
  int max_running = 1;     // jobs of this state directory at once

  bool operator==(const LocalJobSpec&) const = default;
};

// A process, told from another one that got its pid later by when it started.
struct ProcessMark {
  pid_t pid = 0;
  uint64_t start_ticks = 0;  // since boot, from /proc/PID/stat

  bool operator==(const ProcessMark&) const = default;
};

struct LocalJobStart {
  ProcessMark main;
  Instant at{};

  bool operator==(const LocalJobStart&) const = default;
};

struct LocalJobCancel {
  enum class How { polite, kill };
  How how = How::polite;
  uint32_t uid = 0;

  bool operator==(const LocalJobCancel&) const = default;
};

struct LocalJobStatus {
  JobState state = JobState::unknown;
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::optional<uint32_t> cancelled_by_uid;
  std::optional<Instant> started_at;
  Instant ended_at{};
  std::string reason;

  bool operator==(const LocalJobStatus&) const = default;
};

// Replaces `path` by a file with this text; the folder is flushed too.
Status write_whole(const std::string& path, std::string_view text, mode_t mode);
// nullopt: there is no such file.
Result<std::optional<std::string>> read_whole(const std::string& path);

class JobDir {
 public:
  explicit JobDir(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const;

  // Each nullopt: not written (yet).
  Result<std::optional<LocalJobSpec>> read_spec() const;
  Result<std::optional<ProcessMark>> read_shim() const;
  Result<std::optional<LocalJobStart>> read_start() const;
  Result<std::optional<LocalJobCancel>> read_cancel() const;
  Result<std::optional<LocalJobStatus>> read_status() const;

  Status write_spec(const LocalJobSpec& spec) const;
  Status write_shim(const ProcessMark& shim) const;
  Status write_start(const LocalJobStart& start) const;
  Status write_cancel(const LocalJobCancel& cancel) const;
  Status write_status(const LocalJobStatus& status) const;

 private:
  std::string path_;
};

// An flock(2) held as long as this object lives. Not inherited by commands.
class FileLock {
 public:
  enum class Wait { no, yes };
  // nullopt: somebody else holds it (Wait::no). The file is made when missing.
  static Result<std::optional<FileLock>> take(const std::string& path, Wait wait);

  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();
  int fd() const { return fd_; }

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace berth::sched
