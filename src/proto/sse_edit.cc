#include "proto/sse_edit.h"

#include <algorithm>
#include <optional>

#include "proto/json_scan.h"
#include "proto/reply_keys.h"
#include "proto/sse_line.h"

namespace berth::proto {
namespace {

constexpr size_t kMaxBeginning = 512;
constexpr uint8_t kMaxMisses = 8;

// Under construction within one call; every stream of the thread uses it in turn.
thread_local SpliceList scratch_splices;

std::string_view without_one_space(std::string_view value) {
  return value.starts_with(' ') ? value.substr(1) : value;
}

// One line of a whole event: where it is, and its data value if it is a data line.
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

// Whether `rest` is the end of an event that has one line: the end of an object, then nothing but
// the blank line.
bool ends_single_line(std::string_view rest) {
  const char* const end = rest.data() + rest.size();
  const char* stop = find_line_end(rest.data(), end);
  std::string_view terminators(stop, static_cast<size_t>(end - stop));
  return stop > rest.data() && stop[-1] == '}' &&
         (terminators == "\n\n" || terminators == "\r\n\r\n");
}

}  // namespace

SseEdit::SseEdit(const StreamEdits& edits, size_t max_held)
    : quoted_model_(edits.model.empty() ? std::string() : json_quote(edits.model)),
      max_held_(max_held),
      usage_(edits.usage) {}

void SseEdit::feed(std::string_view payload, std::string& out) {
  size_t at = 0;  // where the current event begins in `payload`
  if (!payload.empty() && swallow_lf_) {
    swallow_lf_ = false;
    if (payload[0] == '\n') {
      // The event this ends is out already, or dropped: tell the scanner, follow the event.
      scan_.feed(payload.substr(0, 1));
      at = 1;
      if (!dropped_last_) out.push_back('\n');
      dropped_last_ = false;
    }
  }
  while (at < payload.size()) {
    std::optional<size_t> length = scan_.next_event_end(payload.substr(at));
    const std::string_view part = payload.substr(at, length.value_or(payload.size() - at));
    if (passing_) {
      out.append(part);
      passing_ = !length.has_value();
    } else if (!length) {
      hold(part, out);
    } else if (held_.empty()) {
      take_event(part, out);
    } else {
      held_.append(part);
      take_event(held_, out);
      std::string().swap(held_);
    }
    at += part.size();
    if (length) swallow_lf_ = part.ends_with('\r') && at == payload.size();
  }
}

// Keeps the beginning of an event until its end is known, unless it is too long for that.
void SseEdit::hold(std::string_view part, std::string& out) {
  held_.append(part);
  if (held_.size() <= max_held_) return;
  ++oversized_;
  passing_ = true;
  out.append(held_);
  std::string().swap(held_);
}

// `event` is whole.
void SseEdit::take_event(std::string_view event, std::string& out) {
  // A last LF after CR may or may not have come with the event: it does not count.
  const bool oversized = event.size() - (event.ends_with("\r\n") ? 1 : 0) > max_held_;
  Fate fate = Fate::keep;
  if (oversized) {
    ++oversized_;
  } else {
    fate = edit_like_last(event, out) ? Fate::edit : edit_event(event, out);
  }
  started_ = true;
  dropped_last_ = fate == Fate::drop;
  if (fate == Fate::keep) out.append(event);
  if (fate == Fate::drop) ++dropped_;
  if (fate == Fate::edit) ++edited_;
}

// Plans the edits of an event's JSON, relative to it.
SseEdit::Fate SseEdit::plan(std::string_view json, SpliceList& splices) const {
  ReplyEdits edits;
  edits.quoted_model = quoted_model_;
  edits.drop_usage_chunk = usage_ == UsageStrip::all;
  edits.remove_usage_member = usage_ != UsageStrip::none;
  splices.clear();
  switch (plan_reply_edits(json, edits, splices)) {
    case ReplyFate::keep:
      return Fate::keep;
    case ReplyFate::drop:
      return Fate::drop;
    case ReplyFate::edit:
      return Fate::edit;
  }
  return Fate::keep;
}

// Appends the edited event to `out` if there is something to edit.
SseEdit::Fate SseEdit::edit_event(std::string_view event, std::string& out) {
  size_t at = !started_ && event.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  std::optional<Span> data;
  for (Line line; next_line(event, at, line);) {
    if (!line.is_data) continue;
    if (data) return edit_joined(event, out);
    data = line.data;
  }
  if (!data) return Fate::keep;
  SpliceList& splices = scratch_splices;
  const Fate fate = plan(data->of(event), splices);
  if (fate != Fate::edit) return fate;
  splices.shift(data->begin);
  splices.apply_to(event, out);
  learn(event, splices);
  return fate;
}

// Data over several lines: the lines are joined with LF, as a client does, edited, and written as
// data lines in the place of the first one.
SseEdit::Fate SseEdit::edit_joined(std::string_view event, std::string& out) {
  std::string joined;
  bool first = true;
  const size_t start = !started_ && event.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  size_t at = start;
  for (Line line; next_line(event, at, line);) {
    if (!line.is_data) continue;
    if (!first) joined.push_back('\n');
    first = false;
    joined.append(line.data.of(event));
  }
  SpliceList& splices = scratch_splices;
  const Fate fate = plan(joined, splices);
  if (fate != Fate::edit) return fate;
  const std::string json = splices.apply(joined);
  out.append(event.substr(0, start));
  at = start;
  bool written = false;
  for (Line line; next_line(event, at, line);) {
    if (!line.is_data) {
      out.append(line.all.of(event));
      continue;
    }
    if (written) continue;
    written = true;
    const std::string_view terminator =
        event.substr(line.text.end(), line.all.end() - line.text.end());
    for (size_t from = 0; from <= json.size();) {
      const size_t to = std::min(json.find('\n', from), json.size());
      out.append("data: ").append(json, from, to - from).append(terminator);
      from = to + 1;
    }
  }
  return fate;
}

// Remembers the edit of `event` if the model's name was all there is to edit in its one line.
void SseEdit::learn(std::string_view event, const SpliceList& splices) {
  if (misses_ == kMaxMisses || splices.splices().size() != 1 || !event.starts_with("data:")) return;
  const Splice& only = splices.splices().front();
  const ReplyKeys keys = count_reply_keys(event);
  if (splices.text(only) != quoted_model_ || keys.model != 1 || keys.usage != 0) return;
  if (only.at.end() > kMaxBeginning || !ends_single_line(event.substr(only.at.end()))) return;
  beginning_.assign(event.substr(0, only.at.end()));
  model_at_ = static_cast<uint32_t>(only.at.begin);
}

// Edits an event that begins like the last edited one. The reader that found the model there would
// find it in the same place: the bytes before it are the same, and it is the only one.
bool SseEdit::edit_like_last(std::string_view event, std::string& out) {
  if (beginning_.empty()) return false;
  if (!event.starts_with(beginning_)) {
    if (++misses_ == kMaxMisses) std::string().swap(beginning_);
    return false;
  }
  misses_ = 0;
  const std::string_view rest = event.substr(beginning_.size());
  const std::string_view with_quote = event.substr(beginning_.size() - 1);  // a key may begin there
  if (!ends_single_line(rest) || !count_reply_keys(with_quote).none()) return false;
  out.append(event, 0, model_at_).append(quoted_model_).append(rest);
  return true;
}

}  // namespace berth::proto
