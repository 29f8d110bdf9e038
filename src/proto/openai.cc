#include "proto/openai.h"

#include <fmt/format.h>

#include <array>
#include "proto/json_scan.h"
#include "proto/reply_keys.h"
#include "proto/usage.h"

namespace berth::proto {
namespace {

// The members of a request that the gateway acts on.
enum class Field : uint8_t {
  model,
  stream,
  stream_options,
  max_tokens,
  max_completion_tokens,
  max_output_tokens,
  n,
  user,
  include_usage,
  continuous_usage,
  other,
};

Field top_field(std::string_view key) {
  switch (key.size()) {
    case 1:
      return key == "n" ? Field::n : Field::other;
    case 4:
      return key == "user" ? Field::user : Field::other;
    case 5:
      return key == "model" ? Field::model : Field::other;
    case 6:
      return key == "stream" ? Field::stream : Field::other;
    case 10:
      return key == "max_tokens" ? Field::max_tokens : Field::other;
    case 14:
      return key == "stream_options" ? Field::stream_options : Field::other;
    case 17:
      return key == "max_output_tokens" ? Field::max_output_tokens : Field::other;
    case 21:
      return key == "max_completion_tokens" ? Field::max_completion_tokens : Field::other;
    default:
      return Field::other;
  }
}

Field option_field(std::string_view key) {
  if (key == "include_usage") return Field::include_usage;
  if (key == "continuous_usage_stats") return Field::continuous_usage;
  return Field::other;
}

template <class Classify>
Field classify(const JsonMember& m, Classify by_key) {
  return m.key_escaped ? by_key(json_unescape(m.key)) : by_key(m.key);
}

Error refuse(std::string message) {
  Error error = invalid_argument(std::move(message));
  error.source = Source::caller;
  return error;
}

Error not_json(const JsonFault& fault) {
  return refuse(
      fmt::format("The request body is not valid JSON: {} at byte {}.", fault.what, fault.offset));
}

Error wrong_kind(std::string_view name, std::string_view expected, const JsonMember& m) {
  return refuse(fmt::format("\"{}\" should be {}, not {} (at byte {} of the request body).", name,
                            expected, to_string(m.kind), m.value.begin));
}

// Which fields were seen, to refuse a second one.
class Seen {
 public:
  Status mark(Field field, const JsonMember& m) {
    if (field == Field::other) return {};
    const uint32_t bit = 1u << static_cast<unsigned>(field);
    if (bits_ & bit)
      return refuse(fmt::format("\"{}\" appears twice in the request body (again at byte {}).",
                                json_unescape(m.key), m.key_begin));
    bits_ |= bit;
    return {};
  }

 private:
  uint32_t bits_ = 0;
};

Result<Asked> read_flag(std::string_view name, const JsonMember& m, std::string_view body) {
  if (m.kind == JsonKind::null) return Asked::absent;
  if (m.kind != JsonKind::boolean) return wrong_kind(name, "true or false", m);
  return m.value.of(body) == "true" ? Asked::yes : Asked::no;
}

Status read_stream_options(std::string_view body, const JsonMember& options, RequestPeek& peek) {
  peek.stream_options = options.value;
  if (options.kind == JsonKind::null) {
    peek.stream_options_null = true;
    return {};
  }
  if (options.kind != JsonKind::object) return wrong_kind("stream_options", "an object", options);
  peek.stream_options_empty = true;
  Seen seen;
  JsonMembers members(body, options.value.begin);
  for (JsonMember m; members.next(m);) {
    peek.stream_options_empty = false;
    const Field field = classify(m, option_field);
    if (Status s = seen.mark(field, m); !s) return s;
    if (field == Field::other) continue;
    const bool include = field == Field::include_usage;
    Result<Asked> asked = read_flag(
        include ? "stream_options.include_usage" : "stream_options.continuous_usage_stats", m,
        body);
    if (!asked) return asked.error();
    (include ? peek.include_usage : peek.continuous_usage) = *asked;
    (include ? peek.include_usage_value : peek.continuous_usage_value) = m.value;
  }
  return {};
}

struct TokenLimits {
  std::optional<uint64_t> completion, output, legacy;
};

Status read_member(std::string_view body, const JsonMember& m, Field field, RequestPeek& peek,
                   TokenLimits& limits) {
  const std::string_view value = m.value.of(body);
  switch (field) {
    case Field::model:
      if (m.kind != JsonKind::string) return wrong_kind("model", "a string", m);
      peek.model_value = m.value;
      peek.model = json_unescape(value.substr(1, value.size() - 2));
      return {};
    case Field::stream: {
      Result<Asked> asked = read_flag("stream", m, body);
      if (!asked) return asked.error();
      peek.stream = *asked == Asked::yes;
      return {};
    }
    case Field::stream_options:
      return read_stream_options(body, m, peek);
    case Field::max_tokens:
      limits.legacy = json_uint(value);
      return {};
    case Field::max_completion_tokens:
      limits.completion = json_uint(value);
      return {};
    case Field::max_output_tokens:
      limits.output = json_uint(value);
      return {};
    case Field::n:
      peek.n = json_uint(value).value_or(1);
      return {};
    case Field::user:
      if (m.kind == JsonKind::string) peek.user_value = m.value;
      return {};
    case Field::include_usage:
    case Field::continuous_usage:
    case Field::other:
      return {};
  }
  return {};
}

Error not_an_object(std::string_view body, size_t at) {
  if (at == body.size())
    return refuse("The request body is empty; it should be a JSON object with a \"model\".");
  JsonFault fault;
  std::optional<JsonValue> value = scan_json_value(body, at, fault);
  if (!value) return not_json(fault);
  return refuse(
      fmt::format("The request body should be a JSON object, not {}.", to_string(value->kind)));
}

}  // namespace

Result<RequestPeek> peek_request(std::string_view body) {
  if (std::optional<size_t> bad = invalid_utf8_at(body))
    return refuse(fmt::format("The request body is not valid UTF-8: byte 0x{:02X} at byte {}.",
                              static_cast<unsigned char>(body[*bad]), *bad));
  const size_t open = skip_json_space(body, 0);
  if (open == body.size() || body[open] != '{') return not_an_object(body, open);

  RequestPeek peek;
  peek.object_open = open;
  TokenLimits limits;
  Seen seen;
  JsonMembers members(body, open);
  for (JsonMember m; members.next(m);) {
    const Field field = classify(m, top_field);
    if (field == Field::other) continue;
    if (Status s = seen.mark(field, m); !s) return s.error();
    if (Status s = read_member(body, m, field, peek, limits); !s) return s.error();
  }
  if (members.fault().what) return not_json(members.fault());
  const size_t after = skip_json_space(body, members.end());
  if (after != body.size()) return not_json({after, "more text after the object"});
  if (std::optional<size_t> half = members.lone_surrogate())  // engines answer 500, SDKs retry
    return refuse(fmt::format(
        "The request body has half a character at byte {}: a surrogate escape without its other "
        "half.",
        *half));
  if (peek.model_value.empty()) return refuse("The request body has no \"model\"; name one.");
  if (peek.model.empty()) return refuse("\"model\" is empty; name one.");
  peek.max_tokens = limits.completion ? limits.completion
                    : limits.output   ? limits.output
                                      : limits.legacy;
  return peek;
}

UsageStrip usage_to_strip(const RequestPeek& peek, UsageInjection injected) {
  if (injected == UsageInjection::none) return UsageStrip::none;
  if (!peek.wants_usage()) return UsageStrip::all;
  const bool unasked =
      injected == UsageInjection::include_and_continuous && peek.continuous_usage != Asked::yes;
  return unasked ? UsageStrip::continuous_only : UsageStrip::none;
}

SpliceList plan_request_edits(const RequestPeek& peek, const RequestEdits& edits) {
  SpliceList splices;
  if (edits.model && *edits.model != peek.model)
    splices.add(peek.model_value, json_quote(*edits.model));
  if (edits.usage == UsageInjection::none) return splices;
  const bool continuous = edits.usage == UsageInjection::include_and_continuous;

  if (peek.stream_options.empty() || peek.stream_options_null) {
    const std::string_view object = continuous
                                        ? R"({"include_usage":true,"continuous_usage_stats":true})"
                                        : R"({"include_usage":true})";
    if (peek.stream_options_null)
      splices.add(peek.stream_options, object);
    else  // the object has a "model", so a comma is right
      splices.add({peek.object_open + 1, 0}, fmt::format("\"stream_options\":{},", object));
    return splices;
  }
  // Members that are there are set; the others are put in after the brace.
  std::string inserted;
  auto set = [&](std::string_view name, Asked asked, Span value) {
    if (asked == Asked::yes) return;
    if (!value.empty())
      splices.add(value, "true");
    else
      inserted += fmt::format("{}\"{}\":true", inserted.empty() ? "" : ",", name);
  };
  set("include_usage", peek.include_usage, peek.include_usage_value);
  if (continuous) set("continuous_usage_stats", peek.continuous_usage, peek.continuous_usage_value);
  if (!inserted.empty()) {
    if (!peek.stream_options_empty) inserted += ',';
    splices.add({peek.stream_options.begin + 1, 0}, inserted);
  }
  return splices;
}

namespace {

// What one walk over a reply's object finds.
struct ReplyFindings {
  std::array<Span, 4> models{};  // values to replace
  size_t model_count = 0;
  std::array<Span, 4> usages{};  // members with the comma that goes with them
  size_t usage_count = 0;
  bool too_many = false;
  bool usage_object = false;
  bool has_choices = false;
  bool empty_choices = false;
  bool finished = false;

  void add_model(const JsonMember& m, std::string_view json, std::string_view quoted) {
    if (m.kind != JsonKind::string || m.value.of(json) == quoted) return;
    if (model_count == models.size())
      too_many = true;
    else
      models[model_count++] = m.value;
  }
  void add_usage(Span span) {
    if (usage_count == usages.size())
      too_many = true;
    else
      usages[usage_count++] = span;
  }
};

void find_nested_model(std::string_view json, const JsonMember& outer, std::string_view quoted,
                       ReplyFindings& found) {
  if (outer.kind != JsonKind::object) return;
  JsonMembers members(json, outer.value.begin);
  for (JsonMember m; members.next(m);)
    if (m.key == "model") found.add_model(m, json, quoted);
}

void read_choices(std::string_view json, const JsonMember& m, ReplyFindings& found) {
  if (m.kind != JsonKind::array) return;
  const std::string_view value = m.value.of(json);
  found.has_choices = true;
  found.empty_choices = value[skip_json_space(value, 1)] == ']';
}

// Most events: one "model", and nothing else is due. The walk ends where it stands; what comes
// after it is not checked, but for the last brace.
bool find_single_model(std::string_view json, const ReplyEdits& edits, ReplyFindings& found) {
  const size_t last = json.find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos || json[last] != '}') return false;
  JsonMembers members(json);
  for (JsonMember m; members.next(m);) {
    if (m.key == "model") {
      found.add_model(m, json, edits.quoted_model);
      return true;
    }
    if (m.key == "response" || m.key == "message")
      find_nested_model(json, m, edits.quoted_model, found);
    if (found.model_count > 0) return true;
  }
  return false;
}

// False when `json` is not one valid object, or has more to edit than any engine writes.
bool read_reply(std::string_view json, const ReplyEdits& edits, ReplyFindings& found) {
  const bool wants_usage = edits.drop_usage_chunk || edits.remove_usage_member;
  const bool wants_model = !edits.quoted_model.empty();
  bool kept_before = false;  // a member that stays stands before this one
  size_t last_end = 0;       // where the member before ends
  constexpr size_t kNowhere = std::string_view::npos;
  size_t removal_from = kNowhere;  // an unwanted first member, up to the next key
  std::string_view choices;
  JsonMembers members(json);
  for (JsonMember m; members.next(m);) {
    if (removal_from != kNowhere) found.add_usage({removal_from, m.key_begin - removal_from});
    removal_from = kNowhere;
    if (wants_usage && m.key == "usage") {
      found.usage_object |= m.kind == JsonKind::object;
      if (kept_before)
        found.add_usage({last_end, m.value.end() - last_end});
      else
        removal_from = m.key_begin;
      last_end = m.value.end();
      continue;
    }
    kept_before = true;
    last_end = m.value.end();
    if (wants_usage && m.key == "choices") {
      read_choices(json, m, found);
      choices = m.value.of(json);
    } else if (wants_model && m.key == "model") {
      found.add_model(m, json, edits.quoted_model);
    } else if (wants_model && (m.key == "response" || m.key == "message")) {
      find_nested_model(json, m, edits.quoted_model, found);
    }
  }
  if (removal_from != kNowhere) found.add_usage({removal_from, last_end - removal_from});
  if (!members.complete() || skip_json_space(json, members.end()) != json.size()) return false;
  if (found.too_many) return false;
  if (found.usage_count > 0 && !edits.drop_usage_chunk) {
    UsageScan finish;
    finish.feed(choices);
    found.finished = finish.finish_seen();
  }
  return true;
}

}  // namespace

ReplyFate plan_reply_edits(std::string_view json, const ReplyEdits& edits, SpliceList& splices) {
  const ReplyKeys keys = count_reply_keys(json);
  const bool model = keys.model > 0 && !edits.quoted_model.empty();
  const bool usage = keys.usage > 0 && (edits.drop_usage_chunk || edits.remove_usage_member);
  if (!model && !usage) return ReplyFate::keep;
  ReplyFindings found;
  const bool read = usage || keys.model > 1 ? read_reply(json, edits, found)
                                            : find_single_model(json, edits, found);
  if (!read) return ReplyFate::keep;
  if (edits.drop_usage_chunk && found.has_choices && found.empty_choices && found.usage_object)
    return ReplyFate::drop;
  // Where the client asked for the final usage only, the chunk that finishes a choice keeps its
  // own: some engines report there and nowhere else.
  const bool remove = edits.remove_usage_member && found.has_choices &&
                      (edits.drop_usage_chunk || (!found.empty_choices && !found.finished));
  for (size_t i = 0; i < found.model_count; ++i) splices.add(found.models[i], edits.quoted_model);
  for (size_t i = 0; remove && i < found.usage_count; ++i) splices.add(found.usages[i], "");
  return found.model_count > 0 || (remove && found.usage_count > 0) ? ReplyFate::edit
                                                                    : ReplyFate::keep;
}

}  // namespace berth::proto
