#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace berth {

void check_failed(const char* file, int line, const char* text) noexcept {
  std::fprintf(stderr, "berth: bug: %s:%d: CHECK(%s) failed\n", file, line, text);
  std::abort();
}

}  // namespace berth
