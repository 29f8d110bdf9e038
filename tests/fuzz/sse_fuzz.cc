// SSE scanner and editor. Input: [cut seed][edits][stream...].
//
// Holds for any bytes: the scanner finds the same events and signs however the stream is cut; an
// editor without edits changes nothing; an editor with edits gives the same bytes however the
// stream is cut, edits an edited stream no further, and touches no event that a plain reading of
// the event (nlohmann's parser) says needs no edit.
#include <nlohmann/json.hpp>
#include <optional>

#include "fuzz_input.h"
#include "proto/sse_edit.h"

namespace {

using berth::fuzz::cut;
using berth::fuzz::FuzzInput;
using namespace berth::proto;
using Json = nlohmann::json;

std::string run(const StreamEdits& edits, size_t max_held,
                const std::vector<std::string_view>& pieces, SseEdit* state = nullptr) {
  SseEdit editor(edits, max_held);
  std::string out;
  for (std::string_view piece : pieces) {
    editor.feed(piece, out);
    FUZZ_CHECK(editor.held().size() <= max_held);
  }
  out += editor.held();
  if (state) *state = editor;
  return out;
}

// Events and signs by reading one byte at a time, written without regard for speed.
struct Reference {
  std::vector<std::string> events;  // with terminators
  bool done = false;
};
Reference read_slowly(std::string_view stream) {
  Reference out;
  std::string event, line;
  auto end_line = [&] {
    if (line == "data: [DONE]" || line == "data:[DONE]") out.done = true;
    if (line.empty()) {
      out.events.push_back(event);
      event.clear();
    }
    line.clear();
  };
  for (size_t i = 0; i < stream.size(); ++i) {
    const char c = stream[i];
    event.push_back(c);
    if (c == '\n' || c == '\r') {
      if (c == '\r' && i + 1 < stream.size() && stream[i + 1] == '\n') event.push_back(stream[++i]);
      end_line();
    } else {
      line.push_back(c);
    }
  }
  return out;
}

void check_scan(std::string_view stream, uint8_t seed) {
  const Reference reference = read_slowly(stream);
  SseScan whole;
  std::string_view rest = stream;
  size_t n = 0;
  while (std::optional<size_t> end = whole.next_event_end(rest)) {
    FUZZ_CHECK(n < reference.events.size() && rest.substr(0, *end) == reference.events[n]);
    rest.remove_prefix(*end);
    ++n;
  }
  FUZZ_CHECK(n == reference.events.size());
  if (reference.done) FUZZ_CHECK(whole.signs().done);
  SseScan pieces;
  for (std::string_view piece : cut(stream, seed)) pieces.feed(piece);
  FUZZ_CHECK(pieces.events() == n);
  FUZZ_CHECK(pieces.signs().done == whole.signs().done);
  FUZZ_CHECK(pieces.signs().error == whole.signs().error);
  FUZZ_CHECK(pieces.signs().finished == whole.signs().finished);
  FUZZ_CHECK(pieces.at_boundary() == whole.at_boundary());
}

// The data of an event with exactly one data line.
std::optional<std::string> single_data(std::string_view event) {
  std::optional<std::string> data;
  while (!event.empty()) {
    size_t stop = event.find_first_of("\r\n");
    std::string_view line = event.substr(0, stop);
    event.remove_prefix(stop == std::string_view::npos ? event.size() : stop + 1);
    if (line == "data" || line.starts_with("data:")) {
      if (data) return std::nullopt;
      data = line.size() > 5 ? line.substr(5) : "";
    }
  }
  return data;
}

// What the event's data should say after the edits; nullopt when it should be dropped.
std::optional<Json> expected(Json data, const StreamEdits& edits) {
  auto rename = [&](Json& object) {
    if (object.is_object() && object.contains("model") && object["model"].is_string())
      object["model"] = edits.model;
  };
  if (!edits.model.empty()) {
    rename(data);
    for (const char* key : {"response", "message"})
      if (data.contains(key)) rename(data[key]);
  }
  if (edits.usage != UsageStrip::all || !data.contains("choices") || !data["choices"].is_array() ||
      !data.contains("usage"))
    return data;
  if (data["choices"].empty() && data["usage"].is_object()) return std::nullopt;
  data.erase("usage");
  return data;
}

bool has_duplicate_keys(const std::string& text) {
  std::vector<std::vector<std::string>> open;
  bool twice = false;
  Json::parser_callback_t callback = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key) {
      for (const std::string& key : open.back()) twice |= key == parsed.get_ref<std::string&>();
      open.back().push_back(parsed.get<std::string>());
    }
    return true;
  };
  Json ignored = Json::parse(text, callback, false);
  return twice || ignored.is_discarded();
}

// One event alone: the edit says what a plain reading says it should.
void check_one_event(const std::string& event, const StreamEdits& edits) {
  if (event.starts_with("\xef\xbb\xbf")) return;
  std::optional<std::string> data = single_data(event);
  // nlohmann ends a text at a NUL and passes over a byte order mark; keys written with escapes are
  // not looked for.
  if (!data || data->find('\0') != std::string::npos || data->find("\\u") != std::string::npos ||
      data->starts_with("\xef\xbb\xbf"))
    return;
  Json before = Json::parse(*data, nullptr, false);
  const std::string after = run(edits, 1 << 20, {event});
  if (before.is_discarded()) return;
  if (!before.is_object()) {
    FUZZ_CHECK(after == event);
    return;
  }
  if (has_duplicate_keys(*data)) return;
  std::optional<Json> wanted = expected(before, edits);
  if (!wanted) {
    FUZZ_CHECK(after.empty());
    return;
  }
  if (*wanted == before) FUZZ_CHECK(after == event);
  std::optional<std::string> after_data = single_data(after);
  FUZZ_CHECK(after_data && Json::parse(*after_data, nullptr, false) == *wanted);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  FuzzInput input(bytes, size);
  const uint8_t seed = input.byte();
  const uint8_t choice = input.byte();
  const std::string_view stream = input.rest();
  check_scan(stream, seed);

  FUZZ_CHECK(run({}, 1 << 20, cut(stream, seed)) == stream);
  StreamEdits edits;
  edits.usage = static_cast<UsageStrip>(choice % 3);
  if (choice & 4) edits.model = choice & 8 ? "a \"quoted\"\nname" : "m1";
  const size_t max_held = choice & 16 ? 40 + choice : 1 << 20;
  SseEdit whole_state{StreamEdits{}}, cut_state{StreamEdits{}};
  const std::string whole = run(edits, max_held, {stream}, &whole_state);
  FUZZ_CHECK(run(edits, max_held, cut(stream, seed), &cut_state) == whole);
  FUZZ_CHECK(cut_state.edited_events() == whole_state.edited_events());
  FUZZ_CHECK(cut_state.dropped_events() == whole_state.dropped_events());
  if (max_held == 1 << 20) {
    FUZZ_CHECK(run(edits, max_held, {whole}) == whole);
    if (edits.usage != UsageStrip::continuous_only)
      for (const std::string& event : read_slowly(stream).events) check_one_event(event, edits);
  }
  return 0;
}
