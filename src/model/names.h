// Names that users type and that appear in URLs, job names, paths and labels.
//
// A service's *public name* is "owner/name", or the bare "name" when an operator granted it, so
// that nobody can pose as a model others trust. Clients put the public name in `model`.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace berth {

// A service name: what the owner chose. 1 to 96 bytes of [A-Za-z0-9._:-] and '/', starting with a
// letter or digit, no "//", no "." or ".." segment, not ending in '/'.
Status check_service_name(std::string_view name);

// A user or project name as Slurm and POSIX know it: 1 to 64 bytes of [A-Za-z0-9_.-], starting
// with a letter or underscore or digit.
Status check_account_name(std::string_view what, std::string_view name);

}  // namespace berth
