#include "app/shared_dir.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "app/state_dir.h"
#include "base/id.h"

namespace berth::app {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOurs = "berth-";  // what names of programs, keys and logs begin with
constexpr size_t kProgramLimit = size_t{256} << 20;

Instant changed_at(const struct stat& info) {
  return from_ms(int64_t{info.st_mtim.tv_sec} * 1000 + info.st_mtim.tv_nsec / 1'000'000);
}

// Entries of a folder; empty when it cannot be read. Nothing is followed.
std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    found.push_back(it->path());
  return found;
}

// What tells this program's file from another version of it without reading it.
std::string mark_of(const struct stat& info) {
  return fmt::format("{} {} {} {}.{}", info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec,
                     info.st_mtim.tv_nsec);
}

// The token first to check, last to go: a sweep that was cut short is continued by the next.
bool remove_job_folder(const fs::path& folder, const std::string& token) {
  auto written = read_small_file((folder / "join").string(), 4096);
  if (!written || *written != token + "\n") return false;
  std::error_code error;
  for (const fs::path& path : entries(folder))
    if (path.filename() != "join") fs::remove_all(path, error);
  fs::remove(folder / "join", error);
  return fs::remove(folder, error);
}

bool is_named(const std::vector<std::string>& texts, const std::string& path) {
  return std::any_of(texts.begin(), texts.end(), [&path](const std::string& text) {
    return text.find(path) != std::string::npos;
  });
}

// Older than `keep`, a plain file, and gone now.
bool remove_if_old(const fs::path& path, Instant now, Duration keep) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  return now - changed_at(info) > keep && ::unlink(path.c_str()) == 0;
}

}  // namespace

Result<std::string> stage_program(const std::string& shared_dir, const std::string& remembered) {
  std::string folder = shared_dir + "/bin";
  if (auto s = make_folder(folder, 0755); !s) return std::move(s).error();
  struct stat own {
  }, staged{};
  if (::stat("/proc/self/exe", &own) != 0) return system_error("look at this program", errno);
  auto is_there = [&](const std::string& path) {
    if (::stat(path.c_str(), &staged) != 0 || staged.st_size != own.st_size) return false;
    ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // in use: a sweep goes by its age
    return true;
  };
  std::string mark = mark_of(own) + " ";
  if (auto known = read_small_file(remembered, 4096); known && known->starts_with(mark)) {
    std::string path = folder + "/" + known->substr(mark.size(), known->find('\n') - mark.size());
    if (is_there(path)) return path;
  }
  auto program = read_small_file("/proc/self/exe", kProgramLimit);
  if (!program) return std::move(program).error().wrap("read this program");
  std::string name = std::string(kOurs) + sha256_hex(*program).substr(0, 12);
  std::string path = folder + "/" + name;
  if (!is_there(path))
    if (auto s = write_file(path, *program, 0755); !s)
      return std::move(s).error().wrap("put this program where nodes see it");
  if (auto s = write_file(remembered, mark + name + "\n", 0600); !s) return std::move(s).error();
  return path;
}

std::vector<std::string> job_folders(const std::string& shared_dir) {
  std::vector<std::string> names;
  for (const fs::path& path : entries(shared_dir + "/jobs"))
    if (path.filename().string().starts_with(kOurs)) names.push_back(path.filename().string());
  return names;
}

Swept sweep(const std::string& shared_dir, const std::string& program, const SharedSweep& what) {
  Swept swept;
  for (const std::string& key : what.over)
    swept.jobs += remove_job_folder(shared_dir + "/jobs/" + key, what.join_token(key));
  for (const fs::path& path : entries(shared_dir + "/bin")) {
    bool ours = path.filename().string().starts_with(kOurs);
    if (!ours || path == program || is_named(what.needed, path.string())) continue;
    swept.programs += remove_if_old(path, what.now, kKeepPrograms);
  }
  for (const fs::path& owner : entries(shared_dir + "/logs"))
    for (const fs::path& path : entries(owner)) {
      bool a_log = path.extension() == ".log" && path.filename().string().starts_with(kOurs);
      if (!a_log || what.live.contains(path.stem().string())) continue;
      swept.logs += remove_if_old(path, what.now, kKeepLogs);
    }
  return swept;
}

}  // namespace berth::app
