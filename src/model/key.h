// An API key as Berth keeps it: never the text, only its digest.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/time.h"

namespace berth {

struct KeyRecord {
  enum class Role { user, operator_ };

  std::string id;      // short and public: "k_" + 8 characters; in logs and lists
  std::string name;    // chosen by its owner
  std::string digest;  // SHA-256 of the key, lower-case hexadecimal
  std::string user;
  std::string project;              // who pays for its requests
  std::vector<std::string> groups;  // for access lists
  Role role = Role::user;
  Instant created_at{};
  std::optional<Instant> expires_at;
  std::optional<Instant> revoked_at;

  bool operator==(const KeyRecord&) const = default;
};

}  // namespace berth
