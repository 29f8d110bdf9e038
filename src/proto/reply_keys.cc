#include "proto/reply_keys.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace berth::proto {

ReplyKeys count_reply_keys(std::string_view json) {
  constexpr std::string_view kModel = "\"model\"", kUsage = "\"usage\"";  // of one length
  ReplyKeys found;
  auto look = [&](size_t at) {
    const std::string_view here = json.substr(at, kModel.size());
    found.model += here == kModel;
    found.usage += here == kUsage;
  };
  size_t i = 0;
#if defined(__SSE2__)
  const __m128i quote = _mm_set1_epi8('"'), m = _mm_set1_epi8('m'), u = _mm_set1_epi8('u');
  for (; i + 17 <= json.size(); i += 16) {
    const char* p = json.data() + i;
    const __m128i here = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i next = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 1));
    const __m128i letter = _mm_or_si128(_mm_cmpeq_epi8(next, m), _mm_cmpeq_epi8(next, u));
    auto hits = static_cast<unsigned>(
        _mm_movemask_epi8(_mm_and_si128(_mm_cmpeq_epi8(here, quote), letter)));
    for (; hits; hits &= hits - 1) look(i + static_cast<size_t>(__builtin_ctz(hits)));
  }
#endif
  for (; (i = json.find('"', i)) != std::string_view::npos; ++i) look(i);
  return found;
}

}  // namespace berth::proto
