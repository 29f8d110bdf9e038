#include "cli/cmd_doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/api_fake.h"

namespace berth::cli {
namespace {

using ::testing::HasSubstr;

TEST(CmdDoctor, FindingsFromHereToTheReplicas) {
  Terminal t;
  t.context.environment["BERTH_URL"] = "http://berth.example.org";
  t.context.environment["BERTH_KEY"] = "sk-secret";
  std::string body = R"({"v":1,"findings":[{"level":"ok","what":"slurmctld answers","detail":""},
    {"level":"problem","what":"accounting","detail":"slurmdbd does not answer: start it"}]})";
  t.api.expect("GET", "/berth/v1/doctor").reply(200, body);
  EXPECT_EQ(t.run({"doctor"}), exit_failed);
  EXPECT_EQ(t.out,
            "ok       address of Berth: http://berth.example.org (from BERTH_URL)\n"
            "warning  key: goes over the network without encryption; use https://\n"
            "ok       slurmctld answers\n"
            "problem  accounting: slurmdbd does not answer: start it\n"
            "1 problems, 0 warnings\n");
  EXPECT_THAT(t.out, ::testing::Not(HasSubstr("secret")));
  t.api.expect("GET", "/berth/v1/doctor").reply(200, body);
  EXPECT_EQ(t.run({"doctor", "--json"}), exit_failed);
  EXPECT_EQ(t.out, body + "\n");
  t.api.expect("GET", "/berth/v1/doctor").reply(200, R"({"findings":[]})");
  EXPECT_EQ(t.run({"doctor"}), exit_ok);
}

TEST(CmdDoctor, NoAnswerIsTheProblem) {
  Terminal t;
  t.context.environment["BERTH_URL"] = "http://127.0.0.1:1";
  t.api.expect("GET", "/berth/v1/doctor").fail(Code::unavailable, "connection refused");
  EXPECT_EQ(t.run({"doctor"}), exit_failed);
  EXPECT_THAT(t.out, HasSubstr("warning  key: none"));
  EXPECT_THAT(t.out, HasSubstr("problem  Berth answers: no; is `berth serve` running"));
  EXPECT_THAT(t.err, HasSubstr("connection refused"));
}

}  // namespace
}  // namespace berth::cli
