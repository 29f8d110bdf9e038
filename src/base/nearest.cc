#include "base/nearest.h"

#include <algorithm>
#include <cstddef>

namespace berth {
namespace {

constexpr size_t kLongest = 128;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Optimal string alignment distance.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
          lower(a[i - 2]) == lower(b[j - 1]))
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates,
                                 size_t limit) {
  if (word.empty() || word.size() > kLongest) return {};
  size_t allowed = std::max<size_t>(1, word.size() / 3);
  std::vector<std::pair<size_t, std::string>> found;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongest) continue;
    size_t d = distance(word, candidate);
    size_t slash = candidate.rfind('/');
    if (slash != std::string::npos)
      d = std::min(d, distance(word, std::string_view(candidate).substr(slash + 1)));
    if (d <= allowed) found.emplace_back(d, candidate);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> out;
  for (auto& [d, candidate] : found)
    if (out.size() < limit) out.push_back(std::move(candidate));
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
