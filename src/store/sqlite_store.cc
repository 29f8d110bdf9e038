#include "store/sqlite_store.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/codec.h"
#include "store/migrate.h"

namespace berth::store {
namespace {

constexpr int64_t kEventsKept = 200'000;

// The database's files take their mode from this one.
Status make_private(const std::string& path) {
  int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return system_error("opening " + path, errno);
  int failed = fchmod(fd, 0600) != 0 ? errno : 0;
  close(fd);
  if (failed) return system_error("making " + path + " private", failed);
  return {};
}

Status check_whole(Connection& db, const std::string& path) {
  Result<std::optional<std::string>> word = db.text("PRAGMA quick_check(1)", {});
  if (!word) return std::move(word).error();
  if (word->value_or("") == "ok") return {};
  return Error{
      Code::unavailable,
      fmt::format("the database {} is damaged ({}): stop Berth, move the file away and put "
                  "a backup in its place",
                  path, word->value_or("no answer")),
      Source::system, Retry::no};
}

template <class Record, class KeyOf>
Status load_into(Connection& db, const char* sql, std::map<std::string, Record>& out,
                 KeyOf key_of) {
  Result<std::vector<Connection::Row>> rows = db.rows(sql, {});
  if (!rows) return std::move(rows).error();
  for (const Connection::Row& row : rows.value()) {
    Result<Record> record = decode<Record>(row.at(0));
    if (!record) return std::move(record).error();
    std::string key = key_of(*record);
    out.emplace(std::move(key), std::move(record).value());
  }
  return {};
}

std::string key_of_replica(const ReplicaRecord& r) { return r.key; }

// Runs statements until one fails.
class Batch {
 public:
  explicit Batch(Connection& db) : db_(db) {}
  void operator()(const char* sql, const std::vector<SqlValue>& values) {
    if (status_) status_ = db_.execute(sql, values);
  }
  Status take() { return std::move(status_); }

 private:
  Connection& db_;
  Status status_;
};

}  // namespace

Result<std::unique_ptr<SqliteStore>> SqliteStore::open(const std::string& dir,
                                                       Durability durability) {
  Result<std::unique_ptr<StateDir>> state_dir = StateDir::open(dir);
  if (!state_dir) return std::move(state_dir).error();
  std::string path = dir + "/berth.db";
  if (Status s = make_private(path); !s) return s.error();
  Result<std::unique_ptr<Connection>> db = Connection::open(path);
  if (!db) return std::move(db).error();
  Connection& c = **db;
  if (Status s = c.run("PRAGMA journal_mode = WAL"); !s) return s.error();
  if (Status s = c.run(durability == Durability::power_cut ? "PRAGMA synchronous = FULL"
                                                           : "PRAGMA synchronous = OFF");
      !s)
    return s.error();
  if (Status s = check_whole(c, path); !s) return s.error();
  if (Status s = migrate(c, path, migrations()); !s) return s.error();
  Status pruned =
      c.execute("DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - ?", {kEventsKept});
  if (!pruned) return pruned.error();
  Result<std::unique_ptr<Connection>> reader = Connection::open(path);
  if (!reader) return std::move(reader).error();
  return std::unique_ptr<SqliteStore>(new SqliteStore(
      std::move(state_dir).value(), std::move(db).value(), std::move(reader).value()));
}

Result<Snapshot> SqliteStore::load() {
  Snapshot s;
  for (Status status : {
           load_into(*db_, "SELECT doc FROM services", s.services,
                     [](const ServiceRecord& r) { return r.public_name; }),
           load_into(*db_, "SELECT doc FROM replicas WHERE state <> 'ended'", s.replicas,
                     key_of_replica),
           load_into(*db_, "SELECT doc FROM leases", s.leases,
                     [](const LeaseRecord& r) { return r.id; }),
           load_into(*db_, "SELECT doc FROM keys", s.keys, [](const KeyRecord& r) { return r.id; }),
           load_into(*db_, "SELECT doc FROM grants", s.grants,
                     [](const GrantRecord& r) { return r.name; }),
       })
    if (!status) return status.error();
  for (const auto& [name, service] : s.services) {
    Result<std::vector<Connection::Row>> rows = db_->rows(
        "SELECT doc FROM replicas WHERE service = ? AND state = 'ended' "
        "ORDER BY intended_at DESC, key DESC LIMIT ?",
        {std::string_view(name), static_cast<int64_t>(kEndedInSnapshot)});
    if (!rows) return std::move(rows).error();
    for (const Connection::Row& row : rows.value()) {
      Result<ReplicaRecord> record = decode<ReplicaRecord>(row.at(0));
      if (!record) return std::move(record).error();
      s.replicas.emplace(record->key, *record);
    }
  }
  return s;
}

Status SqliteStore::commit(const Change& change) {
  if (change.empty()) return {};
  if (Status s = db_->execute("BEGIN IMMEDIATE", {}); !s) return s;
  Status written = write(change);
  if (written) written = db_->execute("COMMIT", {});
  if (!written) (void)db_->execute("ROLLBACK", {});
  return written;
}

Status SqliteStore::write(const Change& change) {
  if (Status s = write_services(change); !s) return s;
  if (Status s = write_replicas(change); !s) return s;
  return write_rest(change);
}

Status SqliteStore::write_services(const Change& change) {
  for (const ServiceRecord& r : change.put_services) {
    Result<std::optional<int64_t>> stored = db_->integer(
        "SELECT generation FROM services WHERE public_name = ?", {std::string_view(r.public_name)});
    if (!stored) return std::move(stored).error();
    if (stored->value_or(0) > static_cast<int64_t>(r.generation))
      return Error{Code::conflict, "writing service " + r.public_name +
                                       ": a newer generation is stored already; read it and retry"};
    std::string doc = encode(r);
    Status s = db_->execute("INSERT OR REPLACE INTO services VALUES (?, ?, ?, ?)",
                            {std::string_view(r.public_name), std::string_view(r.owner),
                             static_cast<int64_t>(r.generation), std::string_view(doc)});
    if (!s) return s;
  }
  Batch batch(*db_);
  for (const std::string& name : change.remove_services)
    batch("DELETE FROM services WHERE public_name = ?", {std::string_view(name)});
  return batch.take();
}

Status SqliteStore::write_replicas(const Change& change) {
  Batch batch(*db_);
  for (const ReplicaRecord& r : change.put_replicas) {
    std::string doc = encode(r);
    batch("INSERT OR REPLACE INTO replicas VALUES (?, ?, ?, ?, ?)",
          {std::string_view(r.key), std::string_view(r.service), to_string(r.state),
           to_ms(r.intended_at), std::string_view(doc)});
  }
  for (const std::string& key : change.remove_replicas) {
    batch("DELETE FROM replicas WHERE key = ?", {std::string_view(key)});
    batch("DELETE FROM scripts WHERE replica_key = ?", {std::string_view(key)});
  }
  for (const auto& [key, text] : change.put_scripts)
    batch("INSERT OR REPLACE INTO scripts VALUES (?, ?)",
          {std::string_view(key), std::string_view(text)});
  return batch.take();
}

Status SqliteStore::write_rest(const Change& change) {
  Batch batch(*db_);
  for (const LeaseRecord& r : change.put_leases) {
    std::string doc = encode(r);
    batch("INSERT OR REPLACE INTO leases VALUES (?, ?, ?)",
          {std::string_view(r.id), std::string_view(r.replica_key), std::string_view(doc)});
  }
  for (const std::string& id : change.remove_leases)
    batch("DELETE FROM leases WHERE id = ?", {std::string_view(id)});
  for (const KeyRecord& r : change.put_keys) {
    std::string doc = encode(r);
    batch(
        "INSERT INTO keys VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
        "digest = excluded.digest, doc = excluded.doc",
        {std::string_view(r.id), std::string_view(r.digest), std::string_view(doc)});
  }
  for (const GrantRecord& r : change.put_grants) {
    std::string doc = encode(r);
    batch("INSERT OR REPLACE INTO grants VALUES (?, ?)",
          {std::string_view(r.name), std::string_view(doc)});
  }
  for (const std::string& name : change.remove_grants)
    batch("DELETE FROM grants WHERE name = ?", {std::string_view(name)});
  for (const EventRecord& e : change.events)
    batch("INSERT INTO events (at, service, replica_key, kind, text) VALUES (?, ?, ?, ?, ?)",
          {to_ms(e.at), std::string_view(e.service), std::string_view(e.replica_key),
           std::string_view(e.kind), std::string_view(e.text)});
  return batch.take();
}

Result<std::vector<EventRecord>> SqliteStore::events(const std::string& service, int limit) {
  const char* of_one =
      "SELECT id, at, service, replica_key, kind, text FROM events WHERE service = ? "
      "ORDER BY id DESC LIMIT ?";
  const char* of_all =
      "SELECT id, at, service, replica_key, kind, text FROM events ORDER BY id DESC LIMIT ?";
  auto many = static_cast<int64_t>(limit);
  std::lock_guard lock(reading_);
  Result<std::vector<Connection::Row>> rows =
      service.empty() ? reader_->rows(of_all, {many})
                      : reader_->rows(of_one, {std::string_view(service), many});
  if (!rows) return std::move(rows).error();
  std::vector<EventRecord> out;
  for (Connection::Row& row : rows.value())
    out.push_back({std::stoll(row[0]), from_ms(std::stoll(row[1])), std::move(row[2]),
                   std::move(row[3]), std::move(row[4]), std::move(row[5])});
  return out;
}

Result<std::optional<std::string>> SqliteStore::script(const std::string& replica_key) {
  std::lock_guard lock(reading_);
  return reader_->text("SELECT text FROM scripts WHERE replica_key = ?",
                       {std::string_view(replica_key)});
}

Result<std::vector<ReplicaRecord>> SqliteStore::history(const std::string& service, int limit) {
  std::lock_guard lock(reading_);
  Result<std::vector<Connection::Row>> rows = reader_->rows(
      "SELECT doc FROM replicas WHERE service = ? ORDER BY intended_at DESC, key DESC "
      "LIMIT ?",
      {std::string_view(service), static_cast<int64_t>(limit)});
  if (!rows) return std::move(rows).error();
  std::vector<ReplicaRecord> out;
  for (const Connection::Row& row : rows.value()) {
    Result<ReplicaRecord> record = decode<ReplicaRecord>(row.at(0));
    if (!record) return std::move(record).error();
    out.push_back(std::move(record).value());
  }
  return out;
}

}  // namespace berth::store
