#include "base/id.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/random.h>

#include <vector>

#include "base/check.h"

namespace berth {
namespace {

std::vector<unsigned char> random_bytes(size_t n) {
  std::vector<unsigned char> out(n);
  size_t have = 0;
  while (have < n) {
    ssize_t got = getrandom(out.data() + have, n - have, 0);
    CHECK(got > 0 || errno == EINTR);
    if (got > 0) have += static_cast<size_t>(got);
  }
  return out;
}

std::string hex(const unsigned char* bytes, size_t n) {
  static const char digits[] = "0123456789abcdef";
  std::string out(2 * n, '0');
  for (size_t i = 0; i < n; ++i) {
    out[2 * i] = digits[bytes[i] >> 4];
    out[2 * i + 1] = digits[bytes[i] & 15];
  }
  return out;
}

}  // namespace

std::string random_hex(size_t bytes) {
  auto raw = random_bytes(bytes);
  return hex(raw.data(), raw.size());
}

std::string random_base62(size_t characters) {
  static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::string out;
  while (out.size() < characters)
    for (unsigned char b : random_bytes(characters + 8))
      if (b < 248 && out.size() < characters) out.push_back(digits[b % 62]);  // 248 = 4 * 62
  return out;
}

uint64_t hash64(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325u;
  for (unsigned char c : text) h = (h ^ c) * 0x100000001b3u;
  h ^= h >> 32;
  h *= 0xd6e8feb86659fd93u;
  h ^= h >> 32;
  return h;
}

// The low-level calls: the one-shot function fetches the algorithm under a lock each time, and this
// is on the path of every request.
std::string sha256_hex(std::string_view bytes) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  SHA256_CTX context;
  SHA256_Init(&context);
  SHA256_Update(&context, bytes.data(), bytes.size());
  SHA256_Final(digest, &context);
#pragma GCC diagnostic pop
  return hex(digest, sizeof digest);
}

bool constant_time_equal(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace berth
