// Names to addresses, by getaddrinfo on the blocking pool.
#pragma once

#include <string>
#include <vector>

#include "runtime/address.h"
#include "runtime/blocking_pool.h"

namespace berth::runtime {

// "host:port", "1.2.3.4:port", "[::1]:port" or "unix:/path"; numeric forms never leave this thread.
// At least one address, in the system's order of preference.
Task<Result<std::vector<Address>>> resolve(BlockingPool& pool, std::string text);

// The same, blocking the caller: for the command line only.
Result<std::vector<Address>> resolve_now(const std::string& text);

}  // namespace berth::runtime
