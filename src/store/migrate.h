// The schema of the state database, and how older ones are brought up to it.
//
// Versions only rise (PRAGMA user_version). Before an existing database is changed, a copy is
// written beside it: "PATH.vN.backup", N being the version it had; 0600. A database of a newer
// Berth is refused. Each version's change is one transaction: it is there or it is not.
// Errors: Code::conflict for a newer schema; Code::unavailable when the disk says no.
#pragma once

#include <string>

#include "base/result.h"
#include "store/sqlite.h"

namespace berth::store {

struct Migration {
  int version;      // which the database has afterwards
  const char* sql;  // any number of statements
};

// Applies what is missing of `migrations` (versions 1, 2, ...) to the database at `path`.
Status migrate(Connection& db, const std::string& path, const std::vector<Migration>& migrations);

// Berth's own.
const std::vector<Migration>& migrations();

}  // namespace berth::store
