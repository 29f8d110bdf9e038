#include "cli/target.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "base/id.h"
#include "config/yaml.h"

namespace berth::cli {
namespace {

std::string variable(const std::map<std::string, std::string>& environment, const char* name) {
  auto it = environment.find(name);
  return it == environment.end() ? "" : it->second;
}

std::string home_folder(const std::map<std::string, std::string>& environment, const char* xdg,
                        const char* below_home) {
  std::string base = variable(environment, xdg);
  if (base.empty()) {
    std::string home = variable(environment, "HOME");
    if (home.empty()) return "";
    base = home + below_home;
  }
  return base + "/berth/";
}

// Reads a small file that only its owner may read.
Result<std::optional<std::string>> read_private(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) return std::optional<std::string>();
  if (fd < 0) return system_error("open the login file " + path, errno);
  struct stat st {};
  std::string text(size_t{64} << 10, '\0');
  ssize_t n = ::fstat(fd, &st) == 0 ? ::read(fd, text.data(), text.size()) : -1;
  int saved = errno;
  ::close(fd);
  if (n < 0) return system_error("read the login file " + path, saved);
  if ((st.st_mode & 077) != 0)
    return invalid_argument("the login file " + path +
                            " can be read by others, so its key may be known to them: revoke the "
                            "key (`berth key revoke`), then `berth login` again");
  if (st.st_uid != ::geteuid())
    return invalid_argument("the login file " + path + " belongs to another user");
  text.resize(static_cast<size_t>(n));
  return std::optional<std::string>(std::move(text));
}

struct Login {
  std::string url;
  std::string key;
};

Result<std::optional<Login>> read_login(const std::string& path) {
  if (path.empty()) return std::optional<Login>();
  auto text = read_private(path);
  if (!text) return std::move(text).error();
  if (!*text) return std::optional<Login>();
  config::Problems problems(path);
  auto documents = config::parse_yaml(**text, problems);
  Login login;
  if (documents.size() == 1) {
    if (const auto* url = documents[0].find("url")) login.url = url->text;
    if (const auto* key = documents[0].find("key")) login.key = key->text;
  }
  if (!problems.empty() || login.url.empty())
    return invalid_argument("the login file " + path + " is damaged: `berth login` again");
  return std::optional<Login>(std::move(login));
}

bool is_socket(const std::string& path) {
  struct stat st {};
  return ::stat(path.c_str(), &st) == 0 && S_ISSOCK(st.st_mode);
}

}  // namespace

Result<Target> parse_url(std::string_view url) {
  Target t;
  t.url = url;
  auto wrong = [&](std::string_view why) {
    return invalid_argument("\"" + std::string(url.substr(0, 200)) +
                            "\" is no address of Berth: " + std::string(why) +
                            "; write http://HOST:PORT, https://HOST:PORT or unix:/path");
  };
  if (url.starts_with("unix:")) {
    t.scheme = Target::Scheme::unix_socket;
    t.path = url.substr(5);
    if (t.path.starts_with("//")) t.path.erase(0, 2);
    if (!t.path.starts_with('/')) return wrong("the path must be absolute");
    if (t.path.size() > 107) return wrong("the path is too long");
    t.host = "localhost";
    return t;
  }
  std::string_view rest;
  if (url.starts_with("http://")) {
    rest = url.substr(7);
    t.port = 80;
  } else if (url.starts_with("https://")) {
    rest = url.substr(8);
    t.scheme = Target::Scheme::https;
    t.port = 443;
  } else {
    return wrong("the scheme is missing");
  }
  size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view path = rest.substr(slash);
  if (!path.empty() && path != "/" && path != "/v1" && path != "/v1/")
    return wrong("it must not have a path");
  std::string_view place = rest.substr(0, slash);
  if (place.find('@') != std::string_view::npos) return wrong("a key belongs into BERTH_KEY");
  size_t colon = place.rfind(':');
  size_t bracket = place.rfind(']');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    std::string_view port = place.substr(colon + 1);
    unsigned n = 0;
    auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), n);
    if (error != std::errc() || end != port.data() + port.size() || n == 0 || n > 65535)
      return wrong("the port is no number from 1 to 65535");
    t.port = static_cast<uint16_t>(n);
    place = place.substr(0, colon);
  }
  if (place.starts_with('[') && place.ends_with(']')) place = place.substr(1, place.size() - 2);
  if (place.empty() || place.find_first_of(" \t?#") != std::string_view::npos)
    return wrong("the host is missing");
  t.host = place;
  return t;
}

std::string login_path(const std::map<std::string, std::string>& environment) {
  std::string folder = home_folder(environment, "XDG_CONFIG_HOME", "/.config");
  return folder.empty() ? "" : folder + "login";
}

Result<Target> find_target(const std::map<std::string, std::string>& environment) {
  std::string url = variable(environment, "BERTH_URL"), key = variable(environment, "BERTH_KEY");
  std::string path = login_path(environment), source = "BERTH_URL";
  if (url.empty() || key.empty()) {
    auto login = read_login(path);
    // A damaged file matters only when it is needed.
    if (!login && url.empty()) return std::move(login).error();
    if (login && *login) {
      if (url.empty()) {
        url = (*login)->url;
        source = path;
      }
      if (key.empty() && (*login)->url == url) key = (*login)->key;
    }
  }
  if (url.empty()) {
    std::string folder = home_folder(environment, "XDG_STATE_HOME", "/.local/state");
    if (!folder.empty() && is_socket(folder + "berth.sock")) {
      url = "unix:" + folder + "berth.sock";
      source = "default";
    }
  }
  if (url.empty())
    return invalid_argument(
        "no Berth to talk to: set BERTH_URL (http://HOST:PORT) and BERTH_KEY, or `berth login "
        "URL`");
  auto target = parse_url(url);
  if (!target) return std::move(target).error().wrap(source);
  target->key = key;
  target->source = source;
  return target;
}

Status write_login(const std::string& path, std::string_view url, std::string_view key) {
  std::error_code error;
  std::string folder = path.substr(0, path.rfind('/'));
  std::filesystem::create_directories(folder, error);
  if (error) return system_error("make the folder " + folder, error.value());
  ::chmod(folder.c_str(), 0700);
  std::string fresh = path + "." + random_hex(4);
  int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return system_error("write the login file " + fresh, errno);
  std::string text = "url: \"" + std::string(url) + "\"\nkey: \"" + std::string(key) + "\"\n";
  bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                 ::fsync(fd) == 0;
  int saved = errno;
  ::close(fd);
  if (written && ::rename(fresh.c_str(), path.c_str()) == 0) return {};
  if (written) saved = errno;
  ::unlink(fresh.c_str());
  return system_error("write the login file " + path, saved);
}

}  // namespace berth::cli
