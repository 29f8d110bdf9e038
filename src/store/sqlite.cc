#include "store/sqlite.h"

#include <fmt/format.h>
#include <sqlite3.h>

namespace berth::store {
namespace {

// Resets a statement however the function that steps it is left.
struct Reset {
  sqlite3_stmt* statement;
  ~Reset() {
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
  }
};

std::string column(sqlite3_stmt* statement, int i) {
  const unsigned char* text = sqlite3_column_text(statement, i);
  if (!text) return "";
  return {reinterpret_cast<const char*>(text),
          static_cast<size_t>(sqlite3_column_bytes(statement, i))};
}

}  // namespace

Result<std::unique_ptr<Connection>> Connection::open(const std::string& path) {
  sqlite3* db = nullptr;
  int code = sqlite3_open_v2(
      path.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  std::unique_ptr<Connection> connection(new Connection(db, path));
  if (code != SQLITE_OK) return connection->failure("opening", code);
  sqlite3_extended_result_codes(db, 1);
  sqlite3_busy_timeout(db, 5000);
  return connection;
}

Connection::~Connection() {
  for (auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close(db_);
}

Error Connection::failure(std::string_view what, int code) const {
  const char* words = db_ ? sqlite3_errmsg(db_) : sqlite3_errstr(code);
  Error error;
  error.source = Source::system;
  error.code = Code::unavailable;
  std::string advice;
  switch (code & 0xff) {
    case SQLITE_CONSTRAINT:
      error.code = Code::conflict;
      break;
    case SQLITE_FULL:
      advice = "; the disk is full: free space there";
      break;
    case SQLITE_IOERR:
      advice = "; the disk failed: look at the kernel's log";
      break;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      advice =
          "; the database is damaged: stop Berth, move the file away and put a backup in its "
          "place (berth.db.v*.backup beside it, or your own)";
      break;
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
      advice = "; its folder must belong to the user Berth runs as";
      break;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      advice = "; another program holds the database open for writing";
      error.retry = Retry::yes;
      break;
    default:
      break;
  }
  error.message = fmt::format("{} in {}: {}{}", what, path_, words, advice);
  return error;
}

Status Connection::run(const std::string& sql) {
  int code = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return failure(sql.substr(0, 60), code);
  return {};
}

Result<sqlite3_stmt*> Connection::prepared(const char* sql, const std::vector<SqlValue>& values) {
  sqlite3_stmt*& statement = statements_[sql];
  if (!statement) {
    int code = sqlite3_prepare_v3(db_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    if (code != SQLITE_OK) return failure(sql, code);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    int at = static_cast<int>(i) + 1, code = SQLITE_OK;
    if (const auto* number = std::get_if<int64_t>(&values[i]))
      code = sqlite3_bind_int64(statement, at, *number);
    else if (const auto* text = std::get_if<std::string_view>(&values[i]))
      code = sqlite3_bind_text64(statement, at, text->data(), text->size(), SQLITE_STATIC,
                                 SQLITE_UTF8);
    else
      code = sqlite3_bind_null(statement, at);
    if (code != SQLITE_OK) return failure(sql, code);
  }
  return statement;
}

Status Connection::execute(const char* sql, const std::vector<SqlValue>& values) {
  Result<sqlite3_stmt*> statement = prepared(sql, values);
  if (!statement) return std::move(statement).error();
  Reset reset{*statement};
  int code = sqlite3_step(*statement);
  if (code != SQLITE_DONE && code != SQLITE_ROW) return failure(sql, code);
  return {};
}

Result<std::vector<Connection::Row>> Connection::rows(const char* sql,
                                                      const std::vector<SqlValue>& values) {
  Result<sqlite3_stmt*> statement = prepared(sql, values);
  if (!statement) return std::move(statement).error();
  Reset reset{*statement};
  std::vector<Row> rows;
  int code;
  while ((code = sqlite3_step(*statement)) == SQLITE_ROW) {
    Row& row = rows.emplace_back();
    for (int i = 0; i < sqlite3_column_count(*statement); ++i) row.push_back(column(*statement, i));
  }
  if (code != SQLITE_DONE) return failure(sql, code);
  return rows;
}

Result<std::optional<std::string>> Connection::text(const char* sql,
                                                    const std::vector<SqlValue>& values) {
  Result<std::vector<Row>> all = rows(sql, values);
  if (!all) return std::move(all).error();
  if (all->empty() || all->front().empty()) return std::optional<std::string>{};
  return std::optional<std::string>(std::move(all->front().front()));
}

Result<std::optional<int64_t>> Connection::integer(const char* sql,
                                                   const std::vector<SqlValue>& values) {
  Result<sqlite3_stmt*> statement = prepared(sql, values);
  if (!statement) return std::move(statement).error();
  Reset reset{*statement};
  int code = sqlite3_step(*statement);
  if (code == SQLITE_DONE) return std::optional<int64_t>{};
  if (code != SQLITE_ROW) return failure(sql, code);
  if (sqlite3_column_type(*statement, 0) == SQLITE_NULL) return std::optional<int64_t>{};
  return std::optional<int64_t>(sqlite3_column_int64(*statement, 0));
}

}  // namespace berth::store
