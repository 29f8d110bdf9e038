#include "config/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::config {
namespace {

using ::testing::HasSubstr;

std::string yaml_problems_of(std::string_view text) {
  Problems problems("f");
  parse_yaml(text, problems);
  return problems.to_text();
}

YamlNode parse_value(std::string_view text) {
  Problems problems("f");
  auto documents = parse_yaml(text, problems);
  EXPECT_EQ(problems.to_text(), "");
  EXPECT_EQ(documents.size(), 1u);
  return documents.empty() ? YamlNode{} : documents[0];
}

TEST(Yaml, ScalarsStayAsWritten) {
  YamlNode map = parse_value(
      "a: no\nb: 1e3\nc: 010\nd: 8:00:00\ne: null\nf: ~\ng:\nh: \"x\\ny\"\ni: 'it''s'\nj: 1.10\n");
  auto text = [&](const char* key) { return map.find(key)->text; };
  EXPECT_EQ(text("a"), "no");
  EXPECT_EQ(text("b"), "1e3");
  EXPECT_EQ(text("c"), "010");
  EXPECT_EQ(text("d"), "8:00:00");
  EXPECT_EQ(text("e"), "null");
  EXPECT_EQ(text("f"), "~");
  EXPECT_EQ(text("g"), "");
  EXPECT_EQ(text("h"), "x\ny");
  EXPECT_EQ(text("i"), "it's");
  EXPECT_EQ(text("j"), "1.10");
  EXPECT_EQ(map.find("e")->kind, YamlNode::Kind::null);
  EXPECT_TRUE(map.find("h")->quoted);
  EXPECT_FALSE(map.find("a")->quoted);
}

TEST(Yaml, MarksCountFromOne) {
  YamlNode map = parse_value("a:\n  - x\n  - {b: y}\n");
  EXPECT_EQ(map.find("a")->items[1].members[0].value.mark.line, 3);
  EXPECT_EQ(map.find("a")->items[1].members[0].value.mark.column, 9);
}

TEST(Yaml, BomCrlfAndSeveralDocuments) {
  Problems problems("f");
  auto documents = parse_yaml(
      "\xEF\xBB\xBF"
      "a: |\r\n  x\r\n  y\r\n---\r\nb: 1\r\n---\r\n",
      problems);
  EXPECT_EQ(problems.to_text(), "");
  ASSERT_EQ(documents.size(), 2u);
  EXPECT_EQ(documents[0].find("a")->text, "x\ny\n");
  EXPECT_EQ(documents[1].find("b")->text, "1");
}

TEST(Yaml, RefusesWhatIsNoText) {
  EXPECT_EQ(yaml_problems_of(std::string_view("a: b\nc: \0", 9)),
            "f:2:4: a control character (byte 0x00) is not text");
  EXPECT_THAT(yaml_problems_of("a: \xFF"), HasSubstr("f:1:4: not valid UTF-8"));
  EXPECT_THAT(yaml_problems_of("a: \xC0\xAF"), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(yaml_problems_of("a: \xED\xA0\x80"), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(yaml_problems_of(std::string((1 << 20) + 1, ' ')), HasSubstr("1048577 bytes"));
}

TEST(Yaml, DuplicateKeysAreReportedEach) {
  EXPECT_EQ(yaml_problems_of("a: 1\nb: 2\na: 3\nb: 4\n"),
            "f:3:1: \"a\" is given twice\nf:4:1: \"b\" is given twice");
}

TEST(Yaml, SyntaxErrorsHaveAPlace) {
  EXPECT_THAT(yaml_problems_of("a: [1, 2\nb: c\n"), HasSubstr("f:2:"));
  EXPECT_THAT(yaml_problems_of("a:\n\t- x\n"), HasSubstr("f:2:"));
}

TEST(Yaml, AliasesAreCopiesWithinTheBudget) {
  YamlNode map = parse_value("a: &x {k: v}\nb: *x\n");
  EXPECT_EQ(map.find("b")->find("k")->text, "v");
  std::string laughs = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 10; ++i) {
    std::string list;
    for (int j = 0; j < 10; ++j) list += (j ? ",*a" : "*a") + std::to_string(i - 1);
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + list + "]\n";
  }
  EXPECT_THAT(yaml_problems_of(laughs), HasSubstr("more than 20000 values"));
  EXPECT_THAT(yaml_problems_of("a: &a [*a]\n"), HasSubstr("f:1:8: an alias cannot stand inside"));
}

TEST(Yaml, DepthIsLimited) {
  EXPECT_THAT(yaml_problems_of(std::string(40, '[') + std::string(40, ']')),
              HasSubstr("nested more than 32 deep"));
  EXPECT_THAT(yaml_problems_of(std::string(200000, '[')), HasSubstr("nested more than 32 deep"));
}

TEST(Yaml, TagsAndOddKeysAreRefused) {
  EXPECT_THAT(yaml_problems_of("a: !!python/object x\n"), ::testing::IsEmpty());
  EXPECT_THAT(yaml_problems_of("a: !mine x\n"), HasSubstr("f:1:4: tags are not supported"));
  EXPECT_THAT(yaml_problems_of("? [a]\n: b\n"), HasSubstr("a member's name must be text"));
}

TEST(Yaml, ManyProblemsAreCut) {
  Problems problems("f");
  for (int i = 60; i > 0; --i) problems.add({i, 1}, "x");
  EXPECT_THAT(problems.to_text(), HasSubstr("f:50:1: x\nf: 10 more"));
}

}  // namespace
}  // namespace berth::config
