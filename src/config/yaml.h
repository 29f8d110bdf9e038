// YAML text as a tree of text: what service files and the configuration are read from.
//
// Every scalar stays exactly as it was written ("no", "1e3", "010", "8:00:00", "null"): what it
// means is decided by the one who reads the member, never guessed from its look. Marks count lines
// and columns from 1, columns in bytes.
//
// Refused: more than `max_bytes`, invalid UTF-8, NUL and other control characters, nesting over
// `max_depth`, more than `max_nodes` nodes once aliases are expanded, duplicate and non-scalar
// keys, aliases of an enclosing node, tags other than the standard ones. A byte order mark is
// skipped; CRLF and CR count as line feeds.
// Threading: values; any thread. Cost: linear but for the parser's own corners, hence the limits.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace berth::config {

struct Mark {
  int line = 0;  // 0: no place in a file
  int column = 0;
};

struct YamlMember;

struct YamlNode {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  bool quoted = false;  // a scalar in quotes or a block
  std::string text;     // of a scalar; of a null as it was written ("", "~", "null")
  Mark mark;
  std::vector<YamlNode> items;      // of a list
  std::vector<YamlMember> members;  // of a map, in order; keys are scalars

  const YamlNode* find(std::string_view key) const;
};

struct YamlMember {
  YamlNode key;
  YamlNode value;
};

// Everything that is wrong with a text, in the order it was found.
class Problems {
 public:
  struct Problem {
    Mark mark;
    std::string message;
  };

  explicit Problems(std::string file) : file_(std::move(file)) {}

  void add(Mark mark, std::string message);
  bool empty() const { return all_.empty(); }
  const std::vector<Problem>& all() const { return all_; }
  const std::string& file() const { return file_; }
  // "file:line:column: message" a line, by place; at most 50 of them, then how many more.
  std::string to_text() const;

 private:
  std::string file_;
  std::vector<Problem> all_;
};

struct YamlLimits {
  size_t max_bytes = size_t{1} << 20;
  int max_depth = 32;
  size_t max_nodes = 20000;
};

// The documents of a text; empty ones are left out. What is wrong goes to `problems`; documents
// before a syntax error are returned all the same.
std::vector<YamlNode> parse_yaml(std::string_view text, Problems& problems,
                                 const YamlLimits& limits = {});

}  // namespace berth::config
