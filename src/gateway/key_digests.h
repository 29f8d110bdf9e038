// Digests of the keys that were shown lately, so that a key is hashed once and not at every
// request: the digest is a tenth of what a small request costs.
//
// Only keys that opened something are remembered, so that guesses push nothing out. Whether a key
// is still good is asked of the KeyTable at every request all the same. Keys are compared in
// constant time; keys over kMaxKey bytes are not remembered.
// Memory: at most kSlots keys, wiped when this is destroyed. Threading: one shard's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace berth::gateway {

class KeyDigests {
 public:
  static constexpr size_t kSlots = 256;
  static constexpr size_t kMaxKey = 128;

  // `salt`: unknown outside, so that nobody can choose keys that share a slot.
  explicit KeyDigests(uint64_t salt) : salt_(salt) {}
  KeyDigests(const KeyDigests&) = delete;
  KeyDigests& operator=(const KeyDigests&) = delete;
  ~KeyDigests();

  // The digest of `key` as remember() was given it; nullptr when it is not known. Valid until the
  // next remember().
  const std::string* find(std::string_view key) const;
  void remember(std::string_view key, std::string_view digest);

 private:
  struct Slot {
    std::string key;
    std::string digest;
  };
  size_t slot_of(std::string_view key) const;

  uint64_t salt_;
  std::array<Slot, kSlots> slots_;
};

}  // namespace berth::gateway
