#include "proto/sse.h"

#include <algorithm>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "proto/json_scan.h"
#include "proto/openai.h"

namespace berth::proto {
namespace {

constexpr std::string_view kBom = "\xef\xbb\xbf";

// The first CR or LF at or after `p`.
inline const char* find_line_end(const char* p, const char* end) {
#if defined(__SSE2__)
  const __m128i lf = _mm_set1_epi8('\n'), cr = _mm_set1_epi8('\r');
  while (end - p >= 16) {
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i hit = _mm_or_si128(_mm_cmpeq_epi8(block, lf), _mm_cmpeq_epi8(block, cr));
    if (int mask = _mm_movemask_epi8(hit)) return p + __builtin_ctz(static_cast<unsigned>(mask));
    p += 16;
  }
#endif
  while (p < end && *p != '\n' && *p != '\r') ++p;
  return p;
}

std::string_view without_one_space(std::string_view value) {
  return value.starts_with(' ') ? value.substr(1) : value;
}

std::string_view trim(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

bool is_error_object(std::string_view json) {
  json = trim(json);
  if (!json.starts_with('{')) return false;
  json = trim(json.substr(1));
  if (json.starts_with("\"error\""))
    return trim(json.substr(7)).starts_with(':') &&
           !trim(trim(json.substr(7)).substr(1)).starts_with('n');
  if (!json.starts_with("\"object\"")) return false;
  json = trim(json.substr(8));
  return json.starts_with(':') && trim(json.substr(1)).starts_with("\"error\"");
}

bool is_final_name(std::string_view name) {
  return name == "message_stop" || name == "response.completed" || name == "response.incomplete" ||
         name == "response.failed";
}

// Empties a buffer; keeps its memory unless a long event made it big.
void clear(std::string& buffer) {
  buffer.clear();
  if (buffer.capacity() > 16 * 1024) buffer.shrink_to_fit();
}

// One line of an event that is held whole: where it is, and its data value if it is a data line.
struct Line {
  Span all;   // with its terminator
  Span text;  // without
  bool is_data = false;
  Span data;
};

// Splits `event` into lines, from `at`. False at the end.
bool next_line(std::string_view event, size_t& at, Line& line) {
  if (at >= event.size()) return false;
  const char* begin = event.data() + at;
  const char* end = event.data() + event.size();
  const char* stop = find_line_end(begin, end);
  const size_t size = static_cast<size_t>(stop - begin);
  size_t terminator = 0;
  if (stop < end) terminator = *stop == '\r' && stop + 1 < end && stop[1] == '\n' ? 2 : 1;
  line.all = {at, size + terminator};
  line.text = {at, size};
  std::string_view text = line.text.of(event);
  line.is_data = text == "data" || text.starts_with("data:");
  if (line.is_data) {
    std::string_view value = text.size() > 4 ? without_one_space(text.substr(5)) : "";
    line.data = {at + size - value.size(), value.size()};
  }
  at += line.all.size;
  return true;
}

}  // namespace

// ---- SseScan --------------------------------------------------------------------------------

void SseScan::end_line() {
  std::string_view line(prefix_.data(), prefix_size_);
  prefix_size_ = 0;
  if (first_line_) {
    first_line_ = false;
    if (line.starts_with(kBom)) line.remove_prefix(kBom.size());
  }
  if (line.starts_with("data:")) {
    std::string_view value = line.substr(5);
    if (trim(value) == "[DONE]")
      signs_.done = true;
    else if (is_error_object(value))
      signs_.error = true;
  } else if (line.starts_with("event:")) {
    std::string_view name = trim(line.substr(6));
    if (name == "error" || name == "response.failed") signs_.error = true;
    if (is_final_name(name)) signs_.finished = true;
  } else if (line.starts_with("error:")) {
    signs_.error = true;  // older llama.cpp servers
  }
}

std::optional<size_t> SseScan::next_event_end(std::string_view payload) {
  const char* const begin = payload.data();
  const char* const end = begin + payload.size();
  const char* p = begin;
  if (p < end && after_cr_) {  // the LF of a CRLF that was cut
    after_cr_ = false;
    if (*p == '\n') ++p;
  }
  while (p < end) {
    const char* stop = find_line_end(p, end);
    const size_t length = static_cast<size_t>(stop - p);
    if (length > 0) {
      line_empty_ = false;
      at_boundary_ = false;
      const size_t take = std::min(length, kPrefix - prefix_size_);
      std::memcpy(prefix_.data() + prefix_size_, p, take);
      prefix_size_ = static_cast<uint8_t>(prefix_size_ + take);
    }
    if (stop == end) return std::nullopt;
    const bool blank = line_empty_;
    end_line();
    line_empty_ = true;
    p = stop + 1;
    if (*stop == '\r') {
      if (p == end)
        after_cr_ = true;
      else if (*p == '\n')
        ++p;
    }
    if (blank) {
      at_boundary_ = true;
      ++events_;
      return static_cast<size_t>(p - begin);
    }
    at_boundary_ = false;
  }
  return std::nullopt;
}

size_t SseScan::feed(std::string_view payload) {
  size_t count = 0;
  while (std::optional<size_t> end = next_event_end(payload)) {
    payload.remove_prefix(*end);
    ++count;
  }
  return count;
}

// ---- SseEdit --------------------------------------------------------------------------------

SseEdit::SseEdit(StreamEdits edits, size_t max_held)
    : edits_(std::move(edits)), max_held_(max_held) {
  if (!edits_.model.empty()) quoted_model_ = json_quote(edits_.model);
}

std::string_view SseEdit::feed(std::string_view payload) {
  clear(out_);
  copying_ = !held_.empty();
  size_t at = 0;  // where the current event begins in `payload`
  if (!payload.empty() && swallow_lf_) {
    swallow_lf_ = false;
    if (payload[0] == '\n') {
      // The event this ends is out already, or dropped: tell the scanner, follow the event.
      scan_.feed(payload.substr(0, 1));
      at = 1;
      if (dropped_last_)
        copying_ = true;
      else if (copying_)
        out_.push_back('\n');
      dropped_last_ = false;
    }
  }
  while (at < payload.size()) {
    std::optional<size_t> length = scan_.next_event_end(payload.substr(at));
    const std::string_view part = payload.substr(at, length.value_or(payload.size() - at));
    if (passing_) {
      if (copying_) out_.append(part);
      passing_ = !length.has_value();
    } else if (!length) {
      hold(part, payload.substr(0, at));
    } else if (held_.empty()) {
      take_event(part, payload.substr(0, at));
    } else {
      held_.append(part);
      take_event(held_, payload.substr(0, at));
      clear(held_);
    }
    at += part.size();
    if (length) swallow_lf_ = part.ends_with('\r') && at == payload.size();
  }
  return copying_ ? std::string_view(out_) : payload;
}

// Keeps the beginning of an event until its end is known, unless it is too long for that.
void SseEdit::hold(std::string_view part, std::string_view before) {
  switch_to_copy(before);
  held_.append(part);
  if (held_.size() <= max_held_) return;
  ++oversized_;
  passing_ = true;
  out_.append(held_);
  clear(held_);
}

void SseEdit::switch_to_copy(std::string_view before) {
  if (copying_) return;
  out_.assign(before);
  copying_ = true;
}

// `event` is whole. `before` is what stands before it in this payload, all of it unchanged so far
// unless copying_ is set.
void SseEdit::take_event(std::string_view event, std::string_view before) {
  // A last LF after CR may or may not have come with the event: it does not count.
  const bool oversized = event.size() - (event.ends_with("\r\n") ? 1 : 0) > max_held_;
  const Fate fate = oversized ? Fate::keep : judge(event);
  if (oversized) ++oversized_;
  started_ = true;
  dropped_last_ = fate == Fate::drop;
  switch (fate) {
    case Fate::keep:
      if (copying_) out_.append(event);
      return;
    case Fate::drop:
      ++dropped_;
      switch_to_copy(before);
      return;
    case Fate::edit:
      ++edited_;
      switch_to_copy(before);
      if (rewritten_.empty())
        splices_.apply_to(event, out_);
      else
        out_.append(rewritten_);
      return;
  }
}

SseEdit::Fate SseEdit::judge(std::string_view event) {
  if (edits_.none()) return Fate::keep;
  rewritten_.clear();
  size_t at = !started_ && event.starts_with(kBom) ? kBom.size() : 0;
  std::optional<Span> data;
  bool several = false;
  for (Line line; next_line(event, at, line);) {
    if (!line.is_data) continue;
    several = data.has_value();
    if (several) break;
    data = line.data;
  }
  if (!data) return Fate::keep;
  if (several) return judge_joined(event);
  return judge_json(data->of(event), data->begin);
}

// Judges the JSON of an event that stands at `offset` of the event. Leaves splices_ relative to
// the event.
SseEdit::Fate SseEdit::judge_json(std::string_view json, size_t offset) {
  ReplyEdits edits;
  edits.quoted_model = quoted_model_;
  edits.drop_usage_chunk = edits_.usage == UsageStrip::all;
  edits.remove_usage_member = edits_.usage != UsageStrip::none;
  splices_.clear();
  switch (plan_reply_edits(json, edits, splices_)) {
    case ReplyFate::keep:
      return Fate::keep;
    case ReplyFate::drop:
      return Fate::drop;
    case ReplyFate::edit:
      splices_.shift(offset);
      return Fate::edit;
  }
  return Fate::keep;
}

// Data over several lines: the lines are joined with LF, as a client does, edited, and written as
// data lines in the place of the first one.
SseEdit::Fate SseEdit::judge_joined(std::string_view event) {
  std::string joined;
  bool first = true;
  const size_t start = !started_ && event.starts_with(kBom) ? kBom.size() : 0;
  size_t at = start;
  for (Line line; next_line(event, at, line);) {
    if (!line.is_data) continue;
    if (!first) joined.push_back('\n');
    first = false;
    joined.append(line.data.of(event));
  }
  const Fate fate = judge_json(joined, 0);
  if (fate != Fate::edit) return fate;
  const std::string json = splices_.apply(joined);
  rewritten_.assign(event.substr(0, start));
  at = start;
  bool written = false;
  for (Line line; next_line(event, at, line);) {
    if (!line.is_data) {
      rewritten_.append(line.all.of(event));
      continue;
    }
    if (written) continue;
    written = true;
    const std::string_view terminator =
        event.substr(line.text.end(), line.all.end() - line.text.end());
    for (size_t from = 0; from <= json.size();) {
      const size_t to = std::min(json.find('\n', from), json.size());
      rewritten_.append("data: ").append(json, from, to - from).append(terminator);
      from = to + 1;
    }
  }
  return fate;
}

std::string sse_data_event(std::string_view json) {
  std::string event;
  event.reserve(json.size() + 8);
  event.append("data: ").append(json).append("\n\n");
  return event;
}

}  // namespace berth::proto
