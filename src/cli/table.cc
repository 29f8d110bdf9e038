#include "cli/table.h"

#include <algorithm>
#include <cstdint>

namespace berth::cli {
namespace {

// The next character; bytes that are not UTF-8 come one by one, as U+FFFD.
char32_t next_character(std::string_view& text) {
  auto first = static_cast<unsigned char>(text[0]);
  size_t n = first < 0x80 ? 1 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
  char32_t c = n == 1 ? first : n == 2 ? first & 0x1F : n == 3 ? first & 0x0F : first & 0x07;
  if (n == 0 || text.size() < n) {
    text.remove_prefix(1);
    return 0xFFFD;
  }
  for (size_t i = 1; i < n; ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xC0) != 0x80) {
      text.remove_prefix(1);
      return 0xFFFD;
    }
    c = c << 6 | (byte & 0x3F);
  }
  text.remove_prefix(n);
  return c;
}

bool within(char32_t c, char32_t from, char32_t to) { return c >= from && c <= to; }

int width_of(char32_t c) {
  if (c < 0x20 || within(c, 0x7F, 0x9F)) return 0;
  bool combining = within(c, 0x300, 0x36F) || within(c, 0x200B, 0x200F) ||
                   within(c, 0x20D0, 0x20FF) || within(c, 0xFE00, 0xFE0F) || c == 0xFEFF;
  if (combining) return 0;
  bool wide = within(c, 0x1100, 0x115F) || within(c, 0x2E80, 0x303E) || within(c, 0x3041, 0xA4CF) ||
              within(c, 0xAC00, 0xD7A3) || within(c, 0xF900, 0xFAFF) || within(c, 0xFE30, 0xFE6F) ||
              within(c, 0xFF00, 0xFF60) || within(c, 0xFFE0, 0xFFE6) ||
              within(c, 0x1F300, 0x1F64F) || within(c, 0x1F680, 0x1F6FF) ||
              within(c, 0x1F900, 0x1F9FF) || within(c, 0x20000, 0x3FFFD);
  return wide ? 2 : 1;
}

}  // namespace

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) width += width_of(next_character(text));
  return width;
}

std::string painted(std::string_view text, Colour colour, Paint paint) {
  if (paint == Paint::no || colour == Colour::none || text.empty()) return std::string(text);
  const char* code = colour == Colour::green    ? "32"
                     : colour == Colour::yellow ? "33"
                     : colour == Colour::red    ? "31"
                                                : "90";
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

std::string harmless(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F) c = '?';
  return out;
}

std::string Table::text(Paint paint) const {
  std::vector<int> widths;
  for (const std::string& head : heads_) widths.push_back(display_width(head));
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], display_width(row[i].text));
  std::string out;
  auto line = [&](const std::vector<Cell>& row) {
    size_t last = 0;
    for (size_t i = 0; i < row.size(); ++i)
      if (!row[i].text.empty()) last = i;
    for (size_t i = 0; i < row.size() && i <= last; ++i) {
      out += painted(row[i].text, row[i].colour, paint);
      if (i < last)
        out.append(static_cast<size_t>(widths[i] - display_width(row[i].text) + 2), ' ');
    }
    out += '\n';
  };
  std::vector<Cell> heads;
  for (const std::string& head : heads_) heads.push_back({head, Colour::grey});
  line(heads);
  for (const auto& row : rows_) line(row);
  return out;
}

}  // namespace berth::cli
