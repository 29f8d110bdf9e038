#include "config/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <sstream>

namespace berth::config {
namespace {

struct Refused {
  Mark mark;
  std::string message;
};

Mark mark_of(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

// A null as the source has it: the parser hands over only that it is one.
std::string null_text(std::string_view source, const YAML::Mark& mark) {
  if (mark.pos < 0 || static_cast<size_t>(mark.pos) >= source.size()) return "";
  std::string_view rest = source.substr(mark.pos);
  for (std::string_view form : {"~", "null", "Null", "NULL"})
    if (rest.starts_with(form)) return std::string(form);
  return "";
}

// Builds the tree from the parser's events, within the limits.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view source, Problems& problems, const YamlLimits& limits)
      : source_(source), problems_(problems), limits_(limits) {}

  // The document built last; moves it out.
  YamlNode take() {
    anchors_.clear();
    return std::exchange(root_, YamlNode{});
  }

  void OnDocumentStart(const YAML::Mark&) override {
    stack_.clear();
    root_ = {};
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    YamlNode node;
    node.mark = mark_of(mark);
    node.text = null_text(source_, mark);
    finish(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    auto it = anchors_.find(anchor);
    if (it == anchors_.end())
      throw Refused{mark_of(mark), "an alias cannot stand inside the node that it names"};
    count(it->second.size, mark_of(mark));
    add(it->second.node, it->second.size);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode node;
    node.kind = YamlNode::Kind::scalar;
    node.mark = mark_of(mark);
    node.text = value;
    node.quoted = tag != "?";
    check_tag(node.mark, tag);
    finish(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::list, mark_of(mark), tag, anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::map, mark_of(mark), tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    YAML::anchor_t anchor = 0;
    size_t size = 1;
    bool has_key = false;
    YamlNode key;
    std::set<std::string> keys;
  };
  struct Anchored {
    YamlNode node;
    size_t size = 1;
  };

  void count(size_t more, Mark mark) {
    nodes_ += more;
    if (nodes_ > limits_.max_nodes)
      throw Refused{mark,
                    fmt::format("more than {} values, aliases counted each time they are used",
                                limits_.max_nodes)};
  }

  void check_tag(Mark mark, const std::string& tag) {
    if (!tag.empty() && tag != "?" && tag != "!" && !tag.starts_with("tag:yaml.org,2002:"))
      problems_.add(mark, "tags are not supported: leave \"" + tag.substr(0, 60) + "\" out");
  }

  void open(YamlNode::Kind kind, Mark mark, const std::string& tag, YAML::anchor_t anchor) {
    if (static_cast<int>(stack_.size()) >= limits_.max_depth)
      throw Refused{mark, fmt::format("nested more than {} deep", limits_.max_depth)};
    count(1, mark);
    check_tag(mark, tag);
    Open level;
    level.node.kind = kind;
    level.node.mark = mark;
    level.anchor = anchor;
    stack_.push_back(std::move(level));
  }

  void close() {
    Open level = std::move(stack_.back());
    stack_.pop_back();
    if (level.anchor) anchors_[level.anchor] = {level.node, level.size};
    add(std::move(level.node), level.size);
  }

  void finish(YamlNode node, YAML::anchor_t anchor) {
    count(1, node.mark);
    if (anchor) anchors_[anchor] = {node, 1};
    add(std::move(node), 1);
  }

  void add(YamlNode node, size_t size) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& level = stack_.back();
    level.size += size;
    if (level.node.kind == YamlNode::Kind::list) {
      level.node.items.push_back(std::move(node));
    } else if (!level.has_key) {
      set_key(level, std::move(node));
    } else {
      level.has_key = false;
      // The parser marks a missing value where the next token stands; people look at the name.
      if (node.kind == YamlNode::Kind::null && node.text.empty()) node.mark = level.key.mark;
      level.node.members.push_back({std::move(level.key), std::move(node)});
    }
  }

  void set_key(Open& level, YamlNode key) {
    if (key.kind == YamlNode::Kind::list || key.kind == YamlNode::Kind::map) {
      problems_.add(key.mark, "a member's name must be text");
      key.items.clear();
      key.members.clear();
    }
    key.kind = YamlNode::Kind::scalar;
    if (!level.keys.insert(key.text).second)
      problems_.add(key.mark, "\"" + key.text.substr(0, 80) + "\" is given twice");
    level.key = std::move(key);
    level.has_key = true;
  }

  std::string_view source_;
  Problems& problems_;
  YamlLimits limits_;
  size_t nodes_ = 0;
  std::vector<Open> stack_;
  std::map<YAML::anchor_t, Anchored> anchors_;
  YamlNode root_;
};

// Length of the UTF-8 sequence at the front of `text`; 0 when it is not one.
size_t utf8_length(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char c = byte(0);
  size_t n = c < 0x80                ? 1
             : c >= 0xC2 && c < 0xE0 ? 2
             : c >= 0xE0 && c < 0xF0 ? 3
             : c >= 0xF0 && c < 0xF5 ? 4
                                     : 0;
  if (n == 0 || text.size() < n) return 0;
  uint32_t point = n == 1 ? c : c & (0x7F >> n);
  for (size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    point = point << 6 | (byte(i) & 0x3F);
  }
  bool overlong = (n == 3 && point < 0x800) || (n == 4 && point < 0x10000);
  if (overlong || (point >= 0xD800 && point < 0xE000) || point > 0x10FFFF) return 0;
  return n;
}

// Without byte order mark and carriage returns; what is no text at all is a problem.
bool normalise(std::string_view text, std::string& out, Problems& problems) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  out.reserve(text.size());
  Mark mark{1, 1};
  for (size_t at = 0; at < text.size();) {
    auto c = static_cast<unsigned char>(text[at]);
    size_t n = utf8_length(text.substr(at));
    if (n == 0) {
      problems.add(mark, "not valid UTF-8; save the file as UTF-8");
      return false;
    }
    if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F) {
      problems.add(mark, fmt::format("a control character (byte {:#04x}) is not text", c));
      return false;
    }
    if (c == '\r') {
      if (at + 1 >= text.size() || text[at + 1] != '\n') out += '\n', ++mark.line, mark.column = 1;
    } else {
      out.append(text.substr(at, n));
      if (c == '\n') {
        ++mark.line;
        mark.column = 1;
      } else {
        mark.column += static_cast<int>(n);
      }
    }
    at += n;
  }
  return true;
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  for (const auto& [name, value] : members)
    if (name.text == key) return &value;
  return nullptr;
}

void Problems::add(Mark mark, std::string message) { all_.push_back({mark, std::move(message)}); }

std::string Problems::to_text() const {
  std::vector<const Problem*> sorted;
  for (const Problem& p : all_) sorted.push_back(&p);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Problem* a, const Problem* b) {
    return std::pair(a->mark.line, a->mark.column) < std::pair(b->mark.line, b->mark.column);
  });
  std::string out;
  constexpr size_t kShown = 50;
  for (size_t i = 0; i < std::min(sorted.size(), kShown); ++i) {
    if (i > 0) out += '\n';
    out += file_;
    if (sorted[i]->mark.line > 0)
      out += fmt::format(":{}:{}", sorted[i]->mark.line, sorted[i]->mark.column);
    out += ": " + sorted[i]->message;
  }
  if (sorted.size() > kShown) out += fmt::format("\n{}: {} more", file_, sorted.size() - kShown);
  return out;
}

std::vector<YamlNode> parse_yaml(std::string_view text, Problems& problems,
                                 const YamlLimits& limits) {
  std::vector<YamlNode> documents;
  if (text.size() > limits.max_bytes) {
    problems.add({}, fmt::format("{} bytes; at most {} are read", text.size(), limits.max_bytes));
    return documents;
  }
  std::string source;
  if (!normalise(text, source, problems)) return documents;
  try {
    std::istringstream stream(source);
    YAML::Parser parser(stream);
    TreeBuilder builder(source, problems, limits);
    while (parser.HandleNextDocument(builder)) {
      YamlNode document = builder.take();
      if (document.kind != YamlNode::Kind::null) documents.push_back(std::move(document));
    }
  } catch (const Refused& refused) {
    problems.add(refused.mark, refused.message);
  } catch (const YAML::Exception& error) {
    problems.add(mark_of(error.mark), "not YAML: " + error.msg);
  } catch (const std::exception& error) {
    problems.add({}, std::string("not YAML: ") + error.what());
  }
  return documents;
}

}  // namespace berth::config
