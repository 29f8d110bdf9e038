// The daemon's own folder: local state (--state DIR). What nodes see is in shared_dir.h.
//
//   DIR/berth.db    SQLite (store/sqlite_store.h)     DIR/secret   what join tokens derive from
//   DIR/berth.sock  the API for root and our own user  DIR/address  "host:port", once listening
//   DIR/program     which file in SHARED/bin this program is
//
// Everything of DIR is 0600 or 0700. Functions block; they run once, at start.
#pragma once

#include <string>

#include "base/result.h"

namespace berth::app {

// Makes `path` and its parents; an existing folder must be writable by us.
Status make_folder(const std::string& path, unsigned mode);

// Writes `text` under a temporary name, then renames: readers see the old file or the new one.
Status write_file(const std::string& path, const std::string& text, unsigned mode);

Result<std::string> read_small_file(const std::string& path, size_t limit);

// The secret in DIR/secret; made at the first start. Refused when others may read it.
Result<std::string> site_secret(const std::string& state_dir);

}  // namespace berth::app
