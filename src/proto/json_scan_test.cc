#include "proto/json_scan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace berth::proto {
namespace {

bool valid(std::string_view text) {
  JsonFault fault;
  std::optional<JsonValue> value = scan_json_value(text, 0, fault);
  return value && skip_json_space(text, value->span.end()) == text.size();
}

size_t fault_offset(std::string_view text) {
  JsonFault fault;
  EXPECT_FALSE(scan_json_value(text, 0, fault)) << text;
  EXPECT_NE(fault.what, nullptr);
  return fault.offset;
}

TEST(JsonScan, AcceptsWhatRfc8259Accepts) {
  for (std::string_view text :
       {"{}", "[]", "null", "true", "false", "0", "-0", "-0.0", "12", "1.5", "1E400", "1e-7",
        "165598928036513123123", "\"\"", R"("a\"\\\/\b\f\n\r\tA")", R"("\ud83d")",
        "[1,[2,[3,{}]],{\"a\":[]}]", " { \"a\" : [ 1 , 2 ] } ",
        "{\"a\":{\"b\":{\"c\":[true,false,null]}},\"a\":0}"})
    EXPECT_TRUE(valid(text)) << text;
}

TEST(JsonScan, RefusesWhatItDoesNot) {
  for (std::string_view text : {"",
                                " ",
                                "{",
                                "[",
                                "}",
                                "]",
                                "[}",
                                "{]",
                                "[1,]",
                                "[,1]",
                                "[1 2]",
                                "{\"a\"}",
                                "{\"a\":}",
                                "{\"a\":1,}",
                                "{,}",
                                "{a:1}",
                                "{'a':1}",
                                "{\"a\" 1}",
                                "{\"a\":1 \"b\":2}",
                                "01",
                                "-",
                                "+1",
                                ".5",
                                "1.",
                                "1e",
                                "1e+",
                                "0x10",
                                "NaN",
                                "Infinity",
                                "tru",
                                "nul",
                                "True",
                                "\"",
                                "\"\\",
                                "\"\\q\"",
                                R"("\u12")",
                                R"("\u12g4")",
                                "\"a\nb\"",
                                "\"a\tb\"",
                                "[1]]",
                                "{} {}",
                                "1 2",
                                "[\"a\":1]",
                                "{\"a\":1]"})
    EXPECT_FALSE(valid(text)) << text;
}

TEST(JsonScan, TellsWhereItBroke) {
  EXPECT_EQ(fault_offset("{\"a\" 1}"), 5u);
  EXPECT_EQ(fault_offset("[1,2,x]"), 5u);
  EXPECT_EQ(fault_offset("\"0123456789abcdef\x01\""), 17u);
  EXPECT_EQ(fault_offset("{\"a\":\"b"), 7u);
}

TEST(JsonScan, LimitsDepth) {
  const std::string deep(100, '[');
  JsonFault fault;
  EXPECT_TRUE(scan_json_value(deep + std::string(100, ']'), 0, fault, 100));
  EXPECT_FALSE(scan_json_value("[" + deep + std::string(101, ']'), 0, fault, 100));
  EXPECT_EQ(fault.offset, 100u);
  // Far beyond any limit: refused, not a crash.
  EXPECT_FALSE(valid(std::string(1000000, '[')));
}

// Strings of every length around the block size, with a special byte at every place.
TEST(JsonScan, FindsTheEndOfAStringAtEveryAlignment) {
  for (size_t length = 0; length < 40; ++length) {
    const std::string plain = "\"" + std::string(length, 'x') + "\"";
    EXPECT_TRUE(valid(plain));
    for (size_t i = 0; i < length; ++i) {
      std::string control = plain;
      control[i + 1] = '\x1f';
      EXPECT_FALSE(valid(control)) << length << " " << i;
      std::string high = plain;
      high[i + 1] = '\xe9';
      EXPECT_TRUE(valid(high)) << length << " " << i;
      if (i + 1 < length) {
        std::string escaped = plain;
        escaped[i + 1] = '\\';
        escaped[i + 2] = 'n';
        EXPECT_TRUE(valid(escaped)) << length << " " << i;
      }
    }
  }
}

TEST(JsonMembers, GivesKeysKindsAndSpansInOrder) {
  const std::string text = R"( {"a" : 1 , "b":"x\"y","c":[1,{"a":2}],"d":{},"e":null,"f":true} )";
  std::vector<std::string> seen;
  JsonMembers members(text);
  for (JsonMember m; members.next(m);) {
    EXPECT_EQ(text[m.key_begin], '"');
    seen.push_back(std::string(m.key) + "=" + std::string(m.value.of(text)));
  }
  EXPECT_TRUE(members.complete());
  EXPECT_EQ(members.open(), 1u);
  EXPECT_EQ(members.end(), text.size() - 1);
  EXPECT_EQ(seen, (std::vector<std::string>{"a=1", R"(b="x\"y")", R"(c=[1,{"a":2}])", "d={}",
                                            "e=null", "f=true"}));
}

TEST(JsonMembers, KnowsEscapedKeys) {
  JsonMembers members(R"({"mod\u0065l":1})");
  JsonMember m;
  ASSERT_TRUE(members.next(m));
  EXPECT_TRUE(m.key_escaped);
  EXPECT_TRUE(m.is("model"));
  EXPECT_FALSE(m.is("mod\\u0065l"));
}

TEST(JsonMembers, StopsAtAFault) {
  JsonMembers members("{\"a\":1,\"b\"}");
  JsonMember m;
  EXPECT_TRUE(members.next(m));
  EXPECT_FALSE(members.next(m));
  EXPECT_FALSE(members.complete());
  EXPECT_EQ(members.fault().offset, 10u);
  JsonMembers none("[1]");
  EXPECT_FALSE(none.next(m));
  EXPECT_NE(none.fault().what, nullptr);
}

TEST(Json, UnescapesAndQuotes) {
  EXPECT_EQ(json_unescape(R"(a\u00e9\ud83d\ude00\n\/)"), "a\xc3\xa9\xf0\x9f\x98\x80\n/");
  EXPECT_EQ(json_unescape(R"(x\ud83d)"), "x\xef\xbf\xbd");
  EXPECT_EQ(json_unescape(R"(\ude00\ud83d!)"), "\xef\xbf\xbd\xef\xbf\xbd!");
  EXPECT_EQ(json_quote("a\"b\\c\n\x01\x7f\xc3\xa9"), "\"a\\\"b\\\\c\\n\\u0001\\u007f\xc3\xa9\"");
  EXPECT_EQ(json_quote("bad\xff\xc0\x80"), "\"bad\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

TEST(Json, ReadsPlainIntegersOnly) {
  EXPECT_EQ(json_uint("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(json_uint("0"), 0u);
  for (std::string_view text : {"18446744073709551616", "-1", "1.0", "1e3", "\"1\"", "null", ""})
    EXPECT_EQ(json_uint(text), std::nullopt) << text;
}

TEST(Json, FindsTheFirstByteThatIsNotUtf8) {
  EXPECT_EQ(invalid_utf8_at("plain, \xc3\xa9, \xe4\xb8\xad, \xf0\x9f\x98\x80"), std::nullopt);
  EXPECT_EQ(invalid_utf8_at("ab\xff"), 2u);
  EXPECT_EQ(invalid_utf8_at("a\xc0\x80"), 1u);         // overlong
  EXPECT_EQ(invalid_utf8_at("\xe0\x80\xaf"), 0u);      // overlong
  EXPECT_EQ(invalid_utf8_at("\xed\xa0\x80"), 0u);      // surrogate
  EXPECT_EQ(invalid_utf8_at("\xf4\x90\x80\x80"), 0u);  // above U+10FFFF
  EXPECT_EQ(invalid_utf8_at("abc\xe4\xb8"), 3u);       // cut
}

}  // namespace
}  // namespace berth::proto
