#include "base/nearest.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace berth {
namespace {

constexpr size_t kMaxCompared = 128;  // longer names are compared by their beginning

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

}  // namespace

std::vector<std::string> nearest(std::string_view wanted, std::span<const std::string> names,
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

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  std::vector<std::string> near = nearest(word, candidates, 2);
  if (near.empty()) return "";
  std::string out = "; did you mean \"" + near[0] + "\"";
  if (near.size() > 1) out += " or \"" + near[1] + "\"";
  return out + "?";
}

}  // namespace berth
