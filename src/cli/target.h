// Which Berth a command talks to, and with which key.
//
// BERTH_URL and BERTH_KEY; else the file that `berth login` wrote, ~/.config/berth/login (mode
// 0600; refused when others can read it); else the socket of a daemon of this user,
// ~/.local/state/berth/berth.sock, where the kernel says who asks. A key of the login file is only
// sent to the URL beside it. Proxy variables are never looked at.
// Threading: pure but for reading and writing that file. Errors: what is wrong and what to do.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace berth::cli {

struct Target {
  enum class Scheme { http, https, unix_socket };
  Scheme scheme = Scheme::http;
  std::string host;  // without brackets
  uint16_t port = 0;
  std::string path;  // of the UNIX socket
  std::string url;   // as it was given
  std::string key;
  std::string source;  // "BERTH_URL", the login file's path, "default"
};

// "http://host[:port]", "https://host[:port]", "unix:/path"; a trailing "/" or "/v1" is dropped.
Result<Target> parse_url(std::string_view url);

Result<Target> find_target(const std::map<std::string, std::string>& environment);

// $XDG_CONFIG_HOME/berth/login or $HOME/.config/berth/login; "" when neither is set.
std::string login_path(const std::map<std::string, std::string>& environment);

// Replaces the file at once, mode 0600, its folder 0700.
Status write_login(const std::string& path, std::string_view url, std::string_view key);

}  // namespace berth::cli
