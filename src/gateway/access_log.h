// The access log: one JSON object a line for each request, without any content of it.
//
// Shards append lines to a buffer of their own and hand the whole buffer over now and
// then; one thread writes, so that a slow disk delays nobody. When the writer falls behind by more
// than 16 MiB, further lines are dropped and counted in a line that says so.
// Threading: AccessLog any thread. Errors: a file that cannot be opened is
// an Error of open(); later write errors are reported once on the process's log.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/result.h"
#include "base/time.h"

namespace berth::gateway {

class AccessLog {
 public:
  // `path`: a file that is appended to, or "-" for standard output.
  static Result<std::unique_ptr<AccessLog>> open(const std::string& path);
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;
  // Writes what was handed over.
  ~AccessLog();

  // Whole lines.
  void write(std::string lines);
  // Opens the path again, after it was rotated.
  void reopen();

 private:
  AccessLog(std::string path, int fd);
  void work();

  const std::string path_;
  int fd_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string pending_;
  uint64_t dropped_ = 0;
  bool reopen_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

// What one line says. Strings are escaped, but for id, method, end, usage_source and error, which
// are words that need no escapes. Empty ones and zeros of optional parts are left out.
struct AccessRecord {
  Instant at{};
  std::string_view id;
  std::string_view method;
  std::string_view path;
  int status = 0;
  std::string_view end;  // how the exchange ended: "whole", "client_left", "head_timeout", ...
  std::string_view model;
  std::string_view key_id;
  std::string_view user;
  std::string_view project;
  std::string_view replica;  // lease id
  int attempts = 0;
  bool stream = false;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  uint64_t prompt_tokens = 0;
  uint64_t completion_tokens = 0;
  std::string_view usage_source;  // "none", "reported", "last_cumulative"
  int64_t first_us = -1;          // to the first payload from the engine; -1: none
  int64_t total_us = 0;
  std::string_view error;  // code of an error body that the gateway made
};

void append_access_line(std::string& out, const AccessRecord& record);

}  // namespace berth::gateway
