#include "proto/model_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "proto/json_scan.h"

namespace berth::proto {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void append_text(std::string& out, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  out.append(",\"").append(name).append("\":");
  append_json_quoted(out, value);
}

void append_model(std::string& out, const ModelEntry& entry) {
  out.append("{\"id\":");
  append_json_quoted(out, entry.id);
  out.append(fmt::format(",\"object\":\"model\",\"created\":{},\"owned_by\":", entry.created_s));
  append_json_quoted(out, entry.owned_by);
  append_text(out, "state", entry.state);
  if (entry.context_length > 0)
    out.append(fmt::format(",\"context_length\":{0},\"max_model_len\":{0}", entry.context_length));
  append_text(out, "note", entry.note);
  out.push_back('}');
}

}  // namespace

std::string model_body(const ModelEntry& entry) {
  std::string out;
  append_model(out, entry);
  return out;
}

std::string model_list_body(std::span<const ModelEntry> entries) {
  std::string out = R"({"object":"list","data":[)";
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i > 0) out.push_back(',');
    append_model(out, entries[i]);
  }
  out.append("]}");
  return out;
}

std::optional<std::string> model_id_from_path(std::string_view tail) {
  tail = tail.substr(0, tail.find_first_of("?#"));
  std::string id;
  id.reserve(tail.size());
  for (size_t i = 0; i < tail.size(); ++i) {
    char c = tail[i];
    if (c == '%') {
      const int high = i + 2 < tail.size() ? hex_digit(tail[i + 1]) : -1;
      const int low = i + 2 < tail.size() ? hex_digit(tail[i + 2]) : -1;
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return std::nullopt;
    id.push_back(c);
  }
  if (id.empty() || invalid_utf8_at(id)) return std::nullopt;
  return id;
}

std::string unknown_model_message(std::string_view wanted, std::span<const std::string> nearest) {
  constexpr size_t kShown = 200;
  std::string out = fmt::format("The model `{}{}` does not exist or you may not use it.",
                                wanted.substr(0, kShown), wanted.size() > kShown ? "..." : "");
  for (size_t i = 0; i < nearest.size(); ++i) {
    const std::string_view before =
        i == 0 ? " Did you mean " : (i + 1 == nearest.size() ? " or " : ", ");
    out.append(fmt::format("{}`{}`", before, nearest[i]));
  }
  if (!nearest.empty()) out.push_back('?');
  return out;
}

}  // namespace berth::proto
