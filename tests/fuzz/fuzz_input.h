// Turns a fuzzer's bytes into choices and texts, and says what must hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#define FUZZ_CHECK(cond)                                                             \
  do {                                                                               \
    if (!(cond)) {                                                                   \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #cond); \
      std::abort();                                                                  \
    }                                                                                \
  } while (0)

namespace berth::fuzz {

// The first bytes of the input steer, the rest is the text under test.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : text_(reinterpret_cast<const char*>(data), size) {}

  uint8_t byte() {
    if (text_.empty()) return 0;
    const auto b = static_cast<uint8_t>(text_[0]);
    text_.remove_prefix(1);
    return b;
  }
  std::string_view rest() const { return text_; }

 private:
  std::string_view text_;
};

// Cuts `text` into pieces whose sizes follow from `seed`: sometimes single bytes, sometimes long.
inline std::vector<std::string_view> cut(std::string_view text, uint8_t seed) {
  std::vector<std::string_view> pieces;
  uint32_t state = seed * 2654435761u + 1;
  while (!text.empty()) {
    state = state * 1664525u + 1013904223u;
    const size_t size = seed == 0 ? 1 : 1 + (state >> 16) % (1 + seed);
    pieces.push_back(text.substr(0, size));
    text.remove_prefix(pieces.back().size());
  }
  return pieces;
}

}  // namespace berth::fuzz
