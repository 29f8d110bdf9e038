// A thin, owning layer over SQLite's C API: a connection and prepared statements.
//
// Statements are prepared once and kept. A statement is reset by the next bind, and by Query's
// destructor, so that no read transaction stays open.
// Ownership: the Connection owns its statements. Threading: one thread at a time.
// Errors: Results; the message holds SQLite's own words and the statement.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace berth::store {

using SqlValue = std::variant<std::nullptr_t, int64_t, std::string_view>;

class Connection {
 public:
  static Result<std::unique_ptr<Connection>> open(const std::string& path);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Several statements without parameters: schema, pragmas.
  Status run(const std::string& sql);
  // One statement with parameters that returns no rows. `sql` is kept: pass literals.
  Status execute(const char* sql, const std::vector<SqlValue>& values);
  // One row of one column, or nothing.
  Result<std::optional<std::string>> text(const char* sql, const std::vector<SqlValue>& values);
  Result<std::optional<int64_t>> integer(const char* sql, const std::vector<SqlValue>& values);
  // All rows, all columns as text ("" for NULL).
  using Row = std::vector<std::string>;
  Result<std::vector<Row>> rows(const char* sql, const std::vector<SqlValue>& values);

  sqlite3* handle() { return db_; }

 private:
  explicit Connection(sqlite3* db, std::string path) : db_(db), path_(std::move(path)) {}
  Error failure(std::string_view what, int code) const;
  Result<sqlite3_stmt*> prepared(const char* sql, const std::vector<SqlValue>& values);

  sqlite3* db_;
  std::string path_;
  std::map<const char*, sqlite3_stmt*> statements_;
};

}  // namespace berth::store
