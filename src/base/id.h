// Random identifiers and secrets, from the kernel's generator.
//
// Cores that need reproducible choices hash a key instead (hash64); randomness is for identities.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace berth {

// `bytes` random bytes as lower-case hexadecimal (2 * bytes characters). Aborts when the kernel
// has no randomness to give.
std::string random_hex(size_t bytes);

// `characters` of [0-9A-Za-z], about 5.95 bits each.
std::string random_base62(size_t characters);

// A stable 64-bit hash (FNV-1a with a final mix), the same on every machine and in every release.
uint64_t hash64(std::string_view text);

// SHA-256 as lower-case hexadecimal.
std::string sha256_hex(std::string_view bytes);

// Equal, in time that depends on the lengths only.
bool constant_time_equal(std::string_view a, std::string_view b);

}  // namespace berth
