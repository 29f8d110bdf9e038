// Splices: edits of a text that leave every other byte as it is.
//
// A Splice replaces a span of bytes by a text (an empty span inserts, an empty text removes).
// SpliceList holds them in rising, non-overlapping order and applies them in one pass.
//
// Ownership: the list owns replacement texts; it does not own the text that is edited.
// Threading: a value. Cost: one copy of the edited text when applied, nothing when empty.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace berth::proto {

// A stretch of bytes of some text. size 0 means "not there" where a comment says so.
struct Span {
  size_t begin = 0;
  size_t size = 0;

  size_t end() const { return begin + size; }
  bool empty() const { return size == 0; }
  std::string_view of(std::string_view text) const { return text.substr(begin, size); }
  bool operator==(const Span&) const = default;
};

struct Splice {
  Span at;    // what it replaces
  Span text;  // by what: see SpliceList::text()
};

class SpliceList {
 public:
  // Adds an edit. Splices may be added in any order; two of them must not overlap.
  void add(Span at, std::string_view text);
  // Forgets all edits, keeps the memory.
  void clear() {
    splices_.clear();
    texts_.clear();
  }
  // Moves all splices `by` bytes further, for a text that turns out to be part of a larger one.
  void shift(size_t by);

  bool empty() const { return splices_.empty(); }
  const std::vector<Splice>& splices() const { return splices_; }
  std::string_view text(const Splice& splice) const { return splice.text.of(texts_); }

  // The size of `original_size` bytes after the edits.
  size_t edited_size(size_t original_size) const;

  // Appends the edited text to `out`.
  void apply_to(std::string_view original, std::string& out) const;
  std::string apply(std::string_view original) const;

  // The pieces of the edited text in order, as views into `original` and into this list; for
  // writev without a copy. Valid as long as both live and the list is unchanged.
  std::vector<std::string_view> pieces(std::string_view original) const;

 private:
  std::vector<Splice> splices_;  // sorted by begin
  std::string texts_;            // all replacements, one after the other
};

}  // namespace berth::proto
