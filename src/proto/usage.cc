#include "proto/usage.h"

#include <algorithm>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "proto/json_scan.h"

namespace berth::proto {
namespace {

constexpr size_t kMaxObject = 4096;
constexpr std::array<std::string_view, 3> kKeys = {"\"usage\"", "\"finish_reason\"",
                                                   "\"stop_reason\""};

// The key that `text` begins with; npos when it is none.
size_t key_at(std::string_view text) {
  for (size_t k = 0; k < kKeys.size(); ++k)
    if (text.starts_with(kKeys[k])) return k;
  return std::string_view::npos;
}

bool begins_a_key(std::string_view text) {
  for (std::string_view key : kKeys)
    if (key.starts_with(text)) return true;
  return false;
}

// Adds that stop at the top instead of wrapping: values come from outside.
uint64_t add(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

uint64_t cached_in(std::string_view details) {
  uint64_t cached = 0;
  JsonMembers members(details);
  for (JsonMember m; members.next(m);)
    if (m.key == "cached_tokens") cached = json_uint(m.value.of(details)).value_or(0);
  return cached;
}

}  // namespace

std::string_view to_string(UsageSource source) {
  switch (source) {
    case UsageSource::none:
      return "none";
    case UsageSource::reported:
      return "reported";
    case UsageSource::last_cumulative:
      return "last_cumulative";
  }
  return "?";
}

namespace {

// Reads the object at the start of `text`; its size, or 0 when it is not whole or not valid. Sets
// `known` when it has a field that counts tokens.
size_t read_usage(std::string_view text, Usage& out, bool& known) {
  Usage usage;
  uint64_t cache_read = 0, cache_written = 0;
  known = false;
  JsonMembers members(text);
  for (JsonMember m; members.next(m);) {
    const std::string_view value = m.value.of(text);
    if (m.kind == JsonKind::object) {
      if (m.key == "prompt_tokens_details" || m.key == "input_tokens_details")
        usage.cached_tokens = cached_in(value);
      continue;
    }
    if (m.kind != JsonKind::number) continue;
    std::optional<uint64_t> number = json_uint(value);
    if (!number) continue;
    if (m.key == "prompt_tokens" || m.key == "input_tokens") {
      usage.prompt_tokens = *number;
    } else if (m.key == "completion_tokens" || m.key == "output_tokens") {
      usage.completion_tokens = *number;
    } else if (m.key == "total_tokens") {
      usage.total_tokens = *number;
    } else if (m.key == "cache_read_input_tokens") {
      cache_read = *number;
    } else if (m.key == "cache_creation_input_tokens") {
      cache_written = *number;
    } else {
      continue;
    }
    known = true;
  }
  if (!members.complete()) return 0;
  // Anthropic's input_tokens leaves out what the cache gave or took.
  usage.prompt_tokens = add(usage.prompt_tokens, add(cache_read, cache_written));
  usage.cached_tokens = std::max(usage.cached_tokens, cache_read);
  if (known) out = usage;
  return members.end();
}

}  // namespace

bool parse_usage(std::string_view object, Usage& out) {
  bool known = false;
  return read_usage(object, out, known) > 0 && known;
}

// The next key at or after `p`; its state is set and one past it returned. At the end of the
// piece the beginning of a key is put aside.
const char* UsageScan::search(const char* p, const char* end) {
  auto match = [&](const char* c) -> const char* {
    size_t k = key_at({c, static_cast<size_t>(end - c)});
    if (k == std::string_view::npos) return nullptr;
    key_ = k == 0 ? Key::usage : Key::finish;
    state_ = State::colon;
    return c + kKeys[k].size();
  };
#if defined(__SSE2__)
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i u = _mm_set1_epi8('u'), f = _mm_set1_epi8('f'), s = _mm_set1_epi8('s');
  while (end - p >= 17) {
    const __m128i here = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i next = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 1));
    __m128i letter = _mm_or_si128(_mm_cmpeq_epi8(next, u), _mm_cmpeq_epi8(next, f));
    letter = _mm_or_si128(letter, _mm_cmpeq_epi8(next, s));
    auto mask = static_cast<unsigned>(
        _mm_movemask_epi8(_mm_and_si128(_mm_cmpeq_epi8(here, quote), letter)));
    for (; mask; mask &= mask - 1) {
      const char* c = p + __builtin_ctz(mask);
      if (const char* after = match(c)) return after;
      if (end - c < 16 && begins_a_key({c, static_cast<size_t>(end - c)})) {
        p = c;
        goto tail;
      }
    }
    p += 16;
  }
tail:
#endif
  while ((p = static_cast<const char*>(std::memchr(p, '"', static_cast<size_t>(end - p))))) {
    if (const char* after = match(p)) return after;
    const std::string_view rest(p, static_cast<size_t>(end - p));
    if (rest.size() < partial_.size() && begins_a_key(rest)) {
      std::copy(rest.begin(), rest.end(), partial_.begin());
      partial_size_ = static_cast<uint8_t>(rest.size());
      state_ = State::key;
      return end;
    }
    ++p;
  }
  return end;
}

// Goes on with a key that was cut.
const char* UsageScan::continue_key(const char* p, const char* end) {
  while (p < end) {
    partial_[partial_size_] = *p;
    const std::string_view text(partial_.data(), partial_size_ + 1u);
    if (!begins_a_key(text)) {  // the byte may be the quote of another key: do not eat it
      state_ = State::search;
      return p;
    }
    ++p;
    ++partial_size_;
    if (size_t k = key_at(text); k != std::string_view::npos) {
      key_ = k == 0 ? Key::usage : Key::finish;
      state_ = State::colon;
      return p;
    }
  }
  return p;
}

// Takes the usage object, from its opening brace to the closing one. `p` is inside it.
const char* UsageScan::capture(const char* p, const char* end) {
  const char* start = p;
  for (; p < end; ++p) {
    const char c = *p;
    if (in_string_) {
      if (escaped_)
        escaped_ = false;
      else if (c == '\\')
        escaped_ = true;
      else if (c == '"')
        in_string_ = false;
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{') {
      if (++depth_ > kJsonMaxDepth) break;
    } else if (c == '}' && --depth_ == 0) {
      ++p;
      const std::string_view piece(start, static_cast<size_t>(p - start));
      state_ = State::search;
      if (object_.empty()) {
        take(piece);
      } else {
        object_.append(piece);
        take(object_);
        object_.clear();
      }
      return p;
    }
  }
  if (p < end || object_.size() + static_cast<size_t>(end - start) > kMaxObject) {
    object_.clear();  // no usage object looks like this; look on from here
    state_ = State::search;
    return p;
  }
  object_.append(start, static_cast<size_t>(end - start));
  return end;
}

// The common case: the whole object is there. One past it; null when it is not.
const char* UsageScan::take_whole(const char* p, const char* end) {
  Usage found;
  bool known = false;
  const size_t most = std::min(kMaxObject, static_cast<size_t>(end - p));
  const size_t size = read_usage({p, most}, found, known);
  if (size == 0) return nullptr;
  if (known) merge(found);
  return p + size;
}

void UsageScan::take(std::string_view object) {
  Usage found;
  if (object.size() <= kMaxObject && parse_usage(object, found)) merge(found);
}

void UsageScan::merge(const Usage& found) {
  usage_.prompt_tokens = std::max(usage_.prompt_tokens, found.prompt_tokens);
  usage_.completion_tokens = std::max(usage_.completion_tokens, found.completion_tokens);
  usage_.total_tokens = std::max(usage_.total_tokens, found.total_tokens);
  usage_.cached_tokens = std::max(usage_.cached_tokens, found.cached_tokens);
  if (objects_ != UINT32_MAX) ++objects_;
}

void UsageScan::feed(std::string_view payload) {
  const char* p = payload.data();
  const char* end = p + payload.size();
  while (p < end) {
    switch (state_) {
      case State::search:
        p = search(p, end);
        break;
      case State::key:
        p = continue_key(p, end);
        break;
      case State::colon:
        if (*p == ':') {
          state_ = State::value;
          ++p;
        } else if (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n') {
          ++p;
        } else {
          state_ = State::search;
        }
        break;
      case State::value:
        if (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n') {
          ++p;
        } else if (key_ == Key::usage && *p == '{') {
          if (const char* after = take_whole(p, end)) {
            p = after;
            state_ = State::search;
            break;
          }
          state_ = State::object;
          depth_ = 0;
          in_string_ = escaped_ = false;
          object_.clear();
        } else {
          if (key_ == Key::finish && *p == '"') finish_seen_ = true;
          state_ = State::search;
        }
        break;
      case State::object:
        p = capture(p, end);
        break;
    }
  }
}

Usage UsageScan::usage() const {
  Usage usage = usage_;
  uint64_t sum = add(usage.prompt_tokens, usage.completion_tokens);
  if (sum == 0) usage.prompt_tokens = usage.total_tokens;  // rerank and the like count only a total
  usage.total_tokens = std::max(usage.total_tokens, sum);
  usage.cached_tokens = std::min(usage.cached_tokens, usage.prompt_tokens);
  return usage;
}

UsageSource UsageScan::source(Ending ending) const {
  if (!seen()) return UsageSource::none;
  return ending == Ending::complete ? UsageSource::reported : UsageSource::last_cumulative;
}

}  // namespace berth::proto
