// Tables for people: columns aligned by what the terminal shows, colours only on a terminal.
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace berth::cli {

// Terminal columns of a text: wide characters count 2, combining ones 0. Bytes that are not UTF-8
// count 1 each.
int display_width(std::string_view text);

enum class Colour { none, green, yellow, red, grey };
enum class Paint { no, yes };

// The text in a colour, or as it is.
std::string painted(std::string_view text, Colour colour, Paint paint);

// Control characters (a terminal would obey them) as "?".
std::string harmless(std::string_view text);

struct Cell {
  std::string text;
  Colour colour = Colour::none;
};

class Table {
 public:
  explicit Table(std::vector<std::string> heads) : heads_(std::move(heads)) {}
  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.empty(); }
  // Lines with a line feed each; no spaces at their ends.
  std::string text(Paint paint) const;

 private:
  std::vector<std::string> heads_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace berth::cli
