// CHECK: what must hold for the program to be correct. Always on, also in release builds.
//
// CHECK(cond) aborts with file, line and text. It is for bugs only; bad input and failing peers
// are Result values (result.h).
#pragma once

namespace berth {

[[noreturn]] void check_failed(const char* file, int line, const char* text) noexcept;

}  // namespace berth

#define CHECK(cond) \
  ((cond) ? static_cast<void>(0) : ::berth::check_failed(__FILE__, __LINE__, #cond))
