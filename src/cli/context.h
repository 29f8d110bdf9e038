// What a command may touch: the API, its output, the terminal, the clock. Handed in, so that tests
// turn all of it by hand.
//
// Exit statuses of every command: see ExitStatus. Threading: the program's one thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "cli/api.h"

namespace berth::cli {

enum ExitStatus : int { exit_ok = 0, exit_failed = 1, exit_usage = 2, exit_unknown = 3 };

struct Context {
  std::map<std::string, std::string> environment;  // with PWD as the system sees it
  std::function<void(std::string_view)> out;
  std::function<void(std::string_view)> err;
  // "-" is standard input.
  std::function<Result<std::string>(const std::string& path)> read_file;
  // A line typed by a person, without its line feed; nullopt at the end or after Ctrl-C.
  std::function<std::optional<std::string>(std::string_view prompt)> read_line;
  // The same without echo.
  std::function<std::optional<std::string>(std::string_view prompt)> read_secret;
  // The API at the place that the environment or the login file names; connects at the first call.
  std::function<Result<Api*>()> api;
  // Another place, for `berth login`.
  std::function<Result<Api*>(const std::string& url, const std::string& key)> api_at;
  std::function<Instant()> now;
  // False when the user pressed Ctrl-C.
  std::function<bool(Duration)> sleep;
  bool out_is_terminal = false;
  bool in_is_terminal = false;

  std::string variable(const std::string& name) const {
    auto it = environment.find(name);
    return it == environment.end() ? "" : it->second;
  }
};

}  // namespace berth::cli
