#include "app/state_dir.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#include "base/id.h"

namespace berth::app {

Status make_folder(const std::string& path, unsigned mode) {
  if (path.empty() || path[0] != '/')
    return invalid_argument("folder \"" + path + "\" must be an absolute path");
  for (size_t at = 1; at != std::string::npos;) {
    at = path.find('/', at);
    std::string part = path.substr(0, at);
    if (at != std::string::npos) ++at;
    if (::mkdir(part.c_str(), at == std::string::npos ? mode : 0755) != 0 && errno != EEXIST)
      return system_error("make folder " + part, errno);
  }
  if (::access(path.c_str(), W_OK | X_OK) != 0)
    return system_error("folder " + path + " must be writable", errno);
  return {};
}

Status write_file(const std::string& path, const std::string& text, unsigned mode) {
  std::string temporary = path + ".new." + random_hex(4);
  int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) return system_error("make file " + temporary, errno);
  std::string_view left = text;
  int error = 0;
  while (!left.empty() && error == 0) {
    ssize_t n = ::write(fd, left.data(), left.size());
    if (n < 0 && errno != EINTR) error = errno;
    if (n > 0) left.remove_prefix(static_cast<size_t>(n));
  }
  if (error == 0 && ::fchmod(fd, mode) != 0) error = errno;  // whatever the umask says
  if (error == 0 && ::fsync(fd) != 0) error = errno;
  ::close(fd);
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return {};
  ::unlink(temporary.c_str());
  return system_error("write file " + path, error);
}

Result<std::string> read_small_file(const std::string& path, size_t limit) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return system_error("open " + path, errno);
  std::string text(limit + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > limit)
    return Error{Code::too_large, path + " is larger than " + std::to_string(limit) + " bytes",
                 Source::caller, Retry::no};
  return text;
}

Result<std::string> site_secret(const std::string& state_dir) {
  std::string path = state_dir + "/secret";
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) return system_error("look at " + path, errno);
    std::string secret = random_hex(32);
    if (auto s = write_file(path, secret + "\n", 0600); !s) return std::move(s).error();
    return secret;
  }
  if ((info.st_mode & 077) != 0)
    return Error{Code::permission_denied, path + " may be read by others: chmod 600 it",
                 Source::caller, Retry::no};
  auto text = read_small_file(path, 4096);
  if (!text) return std::move(text).error();
  std::string secret = std::move(text).value();
  while (!secret.empty() && secret.back() == '\n') secret.pop_back();
  if (secret.size() < 32) return invalid_argument(path + " is too short to be a secret");
  return secret;
}

}  // namespace berth::app
