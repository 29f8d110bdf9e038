#include "proto/splice.h"

#include <algorithm>

#include "base/check.h"

namespace berth::proto {

void SpliceList::add(Span at, std::string_view text) {
  if (splices_.empty()) splices_.reserve(4);  // more are rare
  auto place = std::upper_bound(splices_.begin(), splices_.end(), at.begin,
                                [](size_t begin, const Splice& s) { return begin < s.at.begin; });
  CHECK(place == splices_.begin() || (place - 1)->at.end() <= at.begin);
  CHECK(place == splices_.end() || at.end() <= place->at.begin);
  splices_.insert(place, Splice{at, {texts_.size(), text.size()}});
  texts_.append(text);
}

void SpliceList::shift(size_t by) {
  for (Splice& s : splices_) s.at.begin += by;
}

size_t SpliceList::edited_size(size_t original_size) const {
  size_t size = original_size;
  for (const Splice& s : splices_) size = size - s.at.size + s.text.size;
  return size;
}

void SpliceList::apply_to(std::string_view original, std::string& out) const {
  const size_t needed = out.size() + edited_size(original.size());
  if (out.capacity() < needed) out.reserve(needed);
  size_t from = 0;
  for (const Splice& s : splices_) {
    out.append(original.substr(from, s.at.begin - from));
    out.append(text(s));
    from = s.at.end();
  }
  out.append(original.substr(from));
}

std::string SpliceList::apply(std::string_view original) const {
  std::string out;
  out.reserve(edited_size(original.size()));
  apply_to(original, out);
  return out;
}

std::vector<std::string_view> SpliceList::pieces(std::string_view original) const {
  std::vector<std::string_view> out;
  auto push = [&out](std::string_view piece) {
    if (!piece.empty()) out.push_back(piece);
  };
  size_t from = 0;
  for (const Splice& s : splices_) {
    push(original.substr(from, s.at.begin - from));
    push(text(s));
    from = s.at.end();
  }
  push(original.substr(from));
  return out;
}

}  // namespace berth::proto
