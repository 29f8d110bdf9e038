#include "store/migrate.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace berth::store {
namespace {

constexpr const char* kVersion1 = R"sql(
CREATE TABLE services (
  public_name TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  generation INTEGER NOT NULL,
  doc TEXT NOT NULL
) STRICT;
CREATE TABLE replicas (
  key TEXT PRIMARY KEY,
  service TEXT NOT NULL,
  state TEXT NOT NULL,
  intended_at INTEGER NOT NULL,
  doc TEXT NOT NULL
) STRICT;
CREATE INDEX replicas_by_service ON replicas (service, intended_at DESC, key DESC);
CREATE INDEX replicas_living ON replicas (key) WHERE state <> 'ended';
CREATE TABLE leases (id TEXT PRIMARY KEY, replica_key TEXT NOT NULL, doc TEXT NOT NULL) STRICT;
CREATE TABLE keys (id TEXT PRIMARY KEY, digest TEXT NOT NULL UNIQUE, doc TEXT NOT NULL) STRICT;
CREATE TABLE grants (name TEXT PRIMARY KEY, doc TEXT NOT NULL) STRICT;
CREATE TABLE events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  service TEXT NOT NULL,
  replica_key TEXT NOT NULL,
  kind TEXT NOT NULL,
  text TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_service ON events (service, id);
CREATE TABLE scripts (replica_key TEXT PRIMARY KEY, text TEXT NOT NULL) STRICT;
)sql";

Status back_up(Connection& db, const std::string& path, int64_t version) {
  std::string copy = fmt::format("{}.v{}.backup", path, version);
  unlink(copy.c_str());  // of an earlier attempt: VACUUM INTO wants no file there
  mode_t before = umask(0077);
  Status made = db.execute("VACUUM INTO ?", {std::string_view(copy)});
  umask(before);
  if (!made) return made.error().wrap("backing up the database before its schema is changed");
  return {};
}

}  // namespace

const std::vector<Migration>& migrations() {
  static const std::vector<Migration> all = {{1, kVersion1}};
  return all;
}

Status migrate(Connection& db, const std::string& path, const std::vector<Migration>& migrations) {
  Result<std::optional<int64_t>> found = db.integer("PRAGMA user_version", {});
  if (!found) return std::move(found).error();
  const int64_t version = found->value_or(0);
  const int newest = migrations.empty() ? 0 : migrations.back().version;
  if (version > newest)
    return Error{Code::conflict,
                 fmt::format("opening {}: its schema is version {}, written by a newer Berth; this "
                             "one knows up to {}. Run the newer Berth, or restore a backup of its "
                             "own version",
                             path, version, newest),
                 Source::caller, Retry::no};
  if (version == newest) return {};
  if (version > 0)
    if (Status saved = back_up(db, path, version); !saved) return saved;
  for (const Migration& m : migrations) {
    if (m.version <= version) continue;
    std::string sql =
        fmt::format("BEGIN IMMEDIATE;\n{};\nPRAGMA user_version = {};\nCOMMIT;", m.sql, m.version);
    if (Status done = db.run(sql); !done) {
      (void)db.run("ROLLBACK");
      return done.error().wrap(fmt::format("changing the schema to version {}", m.version));
    }
  }
  return {};
}

}  // namespace berth::store
