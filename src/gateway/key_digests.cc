#include "gateway/key_digests.h"

#include <openssl/crypto.h>

#include <cstring>

#include "base/id.h"

namespace berth::gateway {

namespace {

void wipe(std::string& text) {
  OPENSSL_cleanse(text.data(), text.size());
  text.clear();
}

}  // namespace

KeyDigests::~KeyDigests() {
  for (Slot& slot : slots_) wipe(slot.key);
}

// Eight bytes at a step; the salt makes the result differ between processes.
size_t KeyDigests::slot_of(std::string_view key) const {
  uint64_t h = salt_ ^ key.size();
  while (!key.empty()) {
    uint64_t word = 0;
    const size_t n = key.size() < 8 ? key.size() : 8;
    memcpy(&word, key.data(), n);
    h = (h ^ word) * 0x9E3779B97F4A7C15u;
    h ^= h >> 32;
    key.remove_prefix(n);
  }
  return h % kSlots;
}

const std::string* KeyDigests::find(std::string_view key) const {
  if (key.empty() || key.size() > kMaxKey) return nullptr;
  const Slot& slot = slots_[slot_of(key)];
  return constant_time_equal(slot.key, key) ? &slot.digest : nullptr;
}

void KeyDigests::remember(std::string_view key, std::string_view digest) {
  if (key.empty() || key.size() > kMaxKey) return;
  Slot& slot = slots_[slot_of(key)];
  wipe(slot.key);
  slot.key = key;
  slot.digest = digest;
}

}  // namespace berth::gateway
