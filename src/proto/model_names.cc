#include "proto/model_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "proto/json_scan.h"

namespace berth::proto {
namespace {

constexpr size_t kMaxCompared = 128;  // longer names are compared by their beginning

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string lower_case(std::string_view text) {
  std::string out(text.substr(0, kMaxCompared));
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  return out;
}

std::string_view after_slash(std::string_view name) {
  const size_t slash = name.rfind('/');
  return slash == std::string_view::npos ? name : name.substr(slash + 1);
}

// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`; `limit` + 1
// when there are more than `limit`.
size_t edit_distance(std::string_view a, std::string_view b, size_t limit) {
  const size_t gap = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  if (gap > limit) return limit + 1;
  std::array<std::array<uint8_t, kMaxCompared + 1>, 3> rows;  // NOLINT: filled below
  auto row = [&rows](size_t i) -> auto& { return rows[i % 3]; };
  for (size_t j = 0; j <= b.size(); ++j) row(0)[j] = static_cast<uint8_t>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row(i)[0] = static_cast<uint8_t>(i);
    size_t best = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = row(i - 1)[j - 1] + (a[i - 1] == b[j - 1] ? 0u : 1u);
      size_t d = std::min({substitute, row(i - 1)[j] + size_t{1}, row(i)[j - 1] + size_t{1}});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d = std::min(d, row(i - 2)[j - 2] + size_t{1});
      row(i)[j] = static_cast<uint8_t>(d);
      best = std::min(best, d);
    }
    if (best > limit) return limit + 1;
  }
  return row(a.size())[b.size()];
}

// How far `name` is from `wanted`, both in lower case; kFar when too far to mention. Parts of a
// name count as near: who writes "qwen3" means "qwen3-coder-30b".
constexpr size_t kFar = 1000;
size_t distance(std::string_view wanted, std::string_view name) {
  const size_t limit = std::clamp<size_t>(std::max(wanted.size(), name.size()) / 3, 1, 12);
  const size_t edits = edit_distance(wanted, name, limit);
  if (edits <= limit) return edits;
  if (wanted.size() >= 3 && name.starts_with(wanted)) return 20;
  if (name.size() >= 3 && wanted.starts_with(name)) return 21;
  if (wanted.size() >= 4 && name.find(wanted) != std::string_view::npos) return 22;
  return kFar;
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
      const int high = i + 2 < tail.size() ? hex_value(tail[i + 1]) : -1;
      const int low = i + 2 < tail.size() ? hex_value(tail[i + 2]) : -1;
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

std::vector<std::string> nearest_names(std::string_view wanted, std::span<const std::string> names,
                                       size_t limit) {
  const std::string whole = lower_case(wanted);
  const std::string tail = lower_case(after_slash(wanted));
  std::vector<std::pair<size_t, std::string_view>> found;
  for (const std::string& name : names) {
    size_t d = distance(whole, lower_case(name));
    // An owner that is missing or wrong is one step further than the same name.
    if (d > 0) d = std::min(d, distance(tail, lower_case(after_slash(name))) + 1);
    if (d < kFar) found.emplace_back(d, name);
  }
  const size_t count = std::min(limit, found.size());
  std::partial_sort(found.begin(), found.begin() + static_cast<ptrdiff_t>(count), found.end());
  std::vector<std::string> out;
  for (size_t i = 0; i < count; ++i) out.emplace_back(found[i].second);
  return out;
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
