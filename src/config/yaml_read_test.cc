#include "config/yaml_read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::config {
namespace {

using ::testing::HasSubstr;

struct Read {
  explicit Read(std::string_view value) : problems("f"), reader(problems) {
    auto documents = parse_yaml("v: " + std::string(value) + "\n", problems);
    if (!documents.empty()) node = *documents[0].find("v");
  }
  Problems problems;
  YamlReader reader;
  YamlNode node;
};

TEST(YamlRead, Integers) {
  auto read = [](std::string_view value) {
    Read r(value);
    auto n = r.reader.integer(r.node, "v", {0, 5000});
    return n ? std::to_string(*n) : r.problems.to_text();
  };
  EXPECT_EQ(read("0"), "0");
  EXPECT_EQ(read("5000"), "5000");
  EXPECT_EQ(read("\"12\""), "12");
  EXPECT_EQ(read("1e3"), "f:1:4: v must be a whole decimal number, not \"1e3\"");
  EXPECT_EQ(read("010"),
            "f:1:4: v must not begin with 0 (some readers take that for octal), not \"010\"");
  EXPECT_EQ(read("5001"), "f:1:4: v must be between 0 and 5000, not \"5001\"");
  EXPECT_THAT(read("99999999999999999999"), HasSubstr("is too large"));
  EXPECT_THAT(read("1_000"), HasSubstr("whole decimal"));
  EXPECT_THAT(read("0x10"), HasSubstr("whole decimal"));
  EXPECT_THAT(read("-1"), HasSubstr("between"));
  EXPECT_EQ(read(""), "f:1:1: v must not be empty");
  EXPECT_THAT(read("[1]"), HasSubstr("must be text, not a list"));
}

TEST(YamlRead, NulIsNoText) {
  Read r("\"a\\0b\"");
  EXPECT_FALSE(r.reader.raw_text(r.node, "v"));
  EXPECT_EQ(r.problems.to_text(), "f:1:4: v must not hold a NUL character");
}

TEST(YamlRead, BooleansAreTrueAndFalseOnly) {
  auto read = [](std::string_view value) {
    Read r(value);
    auto b = r.reader.boolean(r.node, "v");
    return b ? (*b ? "true" : "false") : r.problems.to_text();
  };
  EXPECT_EQ(read("true"), "true");
  EXPECT_EQ(read("false"), "false");
  EXPECT_EQ(read("no"), "f:1:4: v must be true or false, not \"no\"");
  EXPECT_THAT(read("True"), HasSubstr("true or false"));
}

TEST(YamlRead, Durations) {
  auto read = [](std::string_view value) {
    Read r(value);
    auto d = r.reader.duration(r.node, "v", seconds(1), hours(24));
    return d ? std::to_string(d->count()) : r.problems.to_text();
  };
  EXPECT_EQ(read("8:00:00"), "28800000");
  EXPECT_EQ(read("90"), "90000");
  EXPECT_EQ(read("1-0:0:0"), "86400000");
  EXPECT_THAT(read("2d"), HasSubstr("between 1s and 1d00h, not 2d"));
  EXPECT_THAT(read("soon"), HasSubstr("must be a time such as"));
}

TEST(YamlRead, Memory) {
  EXPECT_EQ(parse_slurm_mem("96G"), 96 * 1024);
  EXPECT_EQ(parse_slurm_mem("96GB"), 96 * 1024);
  EXPECT_EQ(parse_slurm_mem("500"), 500);
  EXPECT_EQ(parse_slurm_mem("1T"), 1024 * 1024);
  EXPECT_EQ(parse_slurm_mem("1025K"), 2);
  EXPECT_EQ(parse_slurm_mem("0"), 0);
  for (const char* bad : {"", "G", "-1G", "1.5G", "9999999999999999T", "1X", "1Gi"})
    EXPECT_EQ(parse_slurm_mem(bad), std::nullopt) << bad;
  EXPECT_EQ(parse_bytes("64MiB"), 64 << 20);
  EXPECT_EQ(parse_bytes("64m"), 64 << 20);
  EXPECT_EQ(parse_bytes("4096"), 4096);
  EXPECT_EQ(parse_bytes("1.5k"), std::nullopt);
}

TEST(YamlRead, UnknownMembersNameTheNearest) {
  Read r("{modle: x, zzz: 1, <<: y}");
  EXPECT_TRUE(r.reader.members(r.node, "the service", {"model", "name"}));
  EXPECT_THAT(r.problems.to_text(),
              HasSubstr("unknown member \"modle\" of the service; did you mean \"model\"?"));
  EXPECT_THAT(r.problems.to_text(),
              HasSubstr("unknown member \"zzz\" of the service; known: model, name"));
  EXPECT_THAT(r.problems.to_text(), HasSubstr("merge keys"));
  Read list("[1]");
  EXPECT_FALSE(list.reader.members(list.node, "v", {}));
}

TEST(YamlRead, ListsOfText) {
  Read r("[--n, 1e3, no, null, \"\", 8:00:00]");
  EXPECT_THAT(*r.reader.raw_texts(r.node, "v"),
              ::testing::ElementsAre("--n", "1e3", "no", "null", "", "8:00:00"));
  EXPECT_FALSE(r.reader.texts(r.node, "v"));
  Read one("x");
  EXPECT_THAT(*one.reader.texts(one.node, "v"), ::testing::ElementsAre("x"));
  Read nested("[x, [y]]");
  EXPECT_FALSE(nested.reader.raw_texts(nested.node, "v"));
  EXPECT_THAT(nested.problems.to_text(), HasSubstr("f:1:8: each of v must be text, not a list"));
}

}  // namespace
}  // namespace berth::config
