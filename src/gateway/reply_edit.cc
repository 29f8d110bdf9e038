#include "gateway/reply_edit.h"

#include "proto/api_error.h"
#include "proto/json_scan.h"
#include "proto/openai.h"

namespace berth::gateway {

void StreamRewriter::feed(std::string_view payload, std::string& out) {
  usage_.feed(payload);
  edit_.feed(payload, out);
}

void StreamRewriter::finish(std::string& out) { out.append(edit_.held()); }

JsonRewriter::JsonRewriter(std::string_view model, proto::UsageScan& usage)
    : model_(model), usage_(usage) {}

void JsonRewriter::feed(std::string_view payload, std::string& out) {
  usage_.feed(payload);
  if (passing_) {
    out.append(payload);
    return;
  }
  held_.append(payload);
  if (held_.size() <= kMost) return;
  passing_ = true;
  out.append(held_);
  std::string().swap(held_);
}

void JsonRewriter::finish(std::string& out) {
  if (passing_) return;
  thread_local proto::SpliceList splices;  // keeps its memory
  splices.clear();
  const std::string quoted_model = proto::json_quote(model_);
  proto::ReplyEdits edits;
  edits.quoted_model = quoted_model;
  proto::ReplyFate fate = proto::plan_reply_edits(held_, edits, splices);
  if (fate == proto::ReplyFate::edit) {
    splices.apply_to(held_, out);
  } else {
    out.append(held_);
  }
}

void ErrorRewriter::feed(std::string_view payload, std::string&) {
  constexpr size_t kMost = 64 * 1024;
  size_t room = kMost - held_.size();
  held_.append(payload.substr(0, room));
}

void ErrorRewriter::finish(std::string& out) { out.append(normal_error(status_, held_)); }

namespace {

struct ErrorParts {
  std::string message;
  std::string type;
  std::string code;
  std::string param;
  proto::Span number;  // where the code is, when it is a number; clients expect a string
};

std::string text_of(std::string_view json, const proto::JsonMember& m) {
  std::string_view value = m.value.of(json);
  if (m.kind == proto::JsonKind::string)
    return proto::json_unescape(value.substr(1, value.size() - 2));
  return m.kind == proto::JsonKind::null ? std::string() : std::string(value);
}

// True when the object is read whole.
bool read_parts(std::string_view json, size_t at, ErrorParts& out) {
  proto::JsonMembers members(json, at);
  for (proto::JsonMember m; members.next(m);) {
    if (m.is("message")) out.message = text_of(json, m);
    if (m.is("type")) out.type = text_of(json, m);
    if (m.is("error_type")) out.type = text_of(json, m);
    if (m.is("code")) {
      out.code = text_of(json, m);
      if (m.kind == proto::JsonKind::number) out.number = m.value;
    }
    if (m.is("param")) out.param = text_of(json, m);
    if (out.message.empty() && (m.is("detail") || m.is("error"))) out.message = text_of(json, m);
  }
  return members.complete();
}

std::string plain_text(std::string_view body) {
  std::string out;
  for (char c : body.substr(0, 500)) {
    if (static_cast<unsigned char>(c) >= 0x20 || c == '\t') out.push_back(c);
  }
  return out;
}

}  // namespace

std::string normal_error(int status, std::string_view body) {
  ErrorParts parts;
  size_t nested_at = 0;
  bool nested = false;
  proto::JsonMembers top(body);
  for (proto::JsonMember m; top.next(m);) {
    if (m.is("error") && m.kind == proto::JsonKind::object) {
      nested = true;
      nested_at = m.value.begin;
    }
  }
  bool is_json = top.complete();
  if (is_json && nested) {
    bool read = read_parts(body, nested_at, parts);
    if (read && !parts.message.empty() && !parts.type.empty()) {
      proto::SpliceList splices;
      if (!parts.number.empty()) splices.add(parts.number, "\"" + parts.code + "\"");
      return splices.apply(body);
    }
  } else if (is_json) {
    is_json = read_parts(body, 0, parts);
  }
  if (!is_json) parts.message = plain_text(body);
  if (parts.message.empty())
    parts.message = "the engine answered with status " + std::to_string(status);
  proto::ApiError e = proto::make_api_error(status, "engine_error", parts.message);
  if (!parts.type.empty()) e.type = parts.type;
  if (!parts.code.empty()) e.code = parts.code;
  e.param = parts.param;
  return proto::error_body(e);
}

}  // namespace berth::gateway
