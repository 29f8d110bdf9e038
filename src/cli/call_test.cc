#include "cli/call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/api_fake.h"

namespace berth::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Call, NamesAreOneSegment) {  // B19
  EXPECT_EQ(service_path("hf.co/org/My-Model:Q4_K_M", "/logs"),
            "/berth/v1/services/hf.co%2Forg%2FMy-Model%3AQ4_K_M/logs");
  EXPECT_EQ(percent_encode("a b%2F~é"), "a%20b%252F~%C3%A9");
}

TEST(Call, ErrorBodies) {
  EXPECT_EQ(error_message(404, R"({"error":{"message":"no service \"x\""}})"), "no service \"x\"");
  EXPECT_EQ(error_message(401, R"({"error":"Unauthorized"})"), "Unauthorized");
  EXPECT_EQ(error_message(502, "<html>\x1b[1m"), "HTTP status 502: <html>?[1m");
  EXPECT_EQ(error_message(500, ""), "HTTP status 500");
}

int status_of_change(Code code) {
  Terminal t;
  t.api.expect("DELETE", "/x").fail(code, "lost");
  return change(t.context, "rm x", "DELETE", "/x", nullptr).status;
}

TEST(Call, AnOutcomeThatIsNotKnownIsSaidSo) {
  Terminal t;
  t.api.expect("DELETE", "/x").fail(Code::unknown_outcome, "the connection was closed");
  EXPECT_EQ(change(t.context, "rm x", "DELETE", "/x", nullptr).status, exit_unknown);
  EXPECT_THAT(t.err, HasSubstr("berth: rm x: the connection was closed. It may or may not have "
                               "been done: look with `berth ps`"));
  EXPECT_EQ(status_of_change(Code::unavailable), exit_failed) << "nothing was sent";
  EXPECT_EQ(status_of_change(Code::unknown_outcome), exit_unknown);

  t.api.expect("GET", "/x").fail(Code::unknown_outcome, "lost");
  EXPECT_EQ(get(t.context, "ps", "/x").status, exit_failed) << "reading changes nothing";
}

TEST(Call, StatusesOfChanges) {
  auto status = [](int http, std::string body) {
    Terminal t;
    t.api.expect("PUT", "/x").reply(http, std::move(body));
    return change(t.context, "apply x", "PUT", "/x", nullptr).status;
  };
  EXPECT_EQ(status(201, "{}"), exit_ok);
  EXPECT_EQ(status(409, "{}"), exit_failed);
  EXPECT_EQ(status(503, "{}"), exit_failed);
  EXPECT_EQ(status(502, "bad gateway"), exit_unknown);
  EXPECT_EQ(status(504, ""), exit_unknown);
  EXPECT_EQ(status(500, R"({"error":{"message":"m","code":"unknown_outcome"}})"), exit_unknown);
}

TEST(Call, A401SaysWhatToDo) {
  Terminal t;
  t.api.expect("GET", "/x").reply(401, R"({"error":{"message":"no such key"}})");
  get(t.context, "ps", "/x");
  EXPECT_EQ(t.err, "berth: ps: no such key (set BERTH_KEY, or `berth login`)\n");
}

TEST(Call, MembersOfOddDocuments) {
  Json odd = {{"a", 1}, {"b", "x\x1b"}, {"c", nullptr}};
  EXPECT_EQ(text_of(odd, "a"), "");
  EXPECT_EQ(text_of(odd, "b"), "x?");
  EXPECT_EQ(text_of(Json("text"), "b"), "");
  EXPECT_EQ(number_of(odd, "a"), 1);
  EXPECT_EQ(number_of(odd, "b", 7), 7);
  EXPECT_TRUE(list_of(odd, "c").empty());
  EXPECT_THAT(Answer{}.document(), IsEmpty());
}

}  // namespace
}  // namespace berth::cli
