#include "proto/sse.h"

#include <algorithm>
#include <cstring>

#include "proto/sse_line.h"

namespace berth::proto {
namespace {

std::string_view trim_line(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

bool is_error_object(std::string_view json) {
  json = trim_line(json);
  if (!json.starts_with('{')) return false;
  json = trim_line(json.substr(1));
  if (json.starts_with("\"error\""))
    return trim_line(json.substr(7)).starts_with(':') &&
           !trim_line(trim_line(json.substr(7)).substr(1)).starts_with('n');
  if (!json.starts_with("\"object\"")) return false;
  json = trim_line(json.substr(8));
  return json.starts_with(':') && trim_line(json.substr(1)).starts_with("\"error\"");
}

bool is_final_name(std::string_view name) {
  return name == "message_stop" || name == "response.completed" || name == "response.incomplete" ||
         name == "response.failed";
}

}  // namespace

// `line`: the line that ends, or as much of its beginning as tells every sign.
void SseScan::end_line(std::string_view line) {
  if (first_line_) {
    first_line_ = false;
    if (line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  }
  if (line.starts_with("data:")) {
    std::string_view value = line.substr(5);
    if (trim_line(value) == "[DONE]")
      signs_.done = true;
    else if (is_error_object(value))
      signs_.error = true;
  } else if (line.starts_with("event:")) {
    std::string_view name = trim_line(line.substr(6));
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
    std::string_view line(p, static_cast<size_t>(stop - p));
    if (prefix_size_ > 0 || stop == end) {  // a line that was cut, or is
      const size_t take = std::min(line.size(), kPrefix - prefix_size_);
      std::memcpy(prefix_.data() + prefix_size_, line.data(), take);
      prefix_size_ = static_cast<uint8_t>(prefix_size_ + take);
      line = {prefix_.data(), prefix_size_};
    }
    if (!line.empty()) at_boundary_ = false;
    if (stop == end) return std::nullopt;
    const bool blank = line.empty();
    prefix_size_ = 0;
    end_line(line);
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

std::string sse_data_event(std::string_view json) {
  std::string event;
  event.reserve(json.size() + 8);
  event.append("data: ").append(json).append("\n\n");
  return event;
}

}  // namespace berth::proto
