#include "cli/cmd_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/api_fake.h"

namespace berth::cli {
namespace {

using ::testing::HasSubstr;

TEST(CmdConfig, CheckSaysEverything) {
  Terminal t;
  t.files["b.yaml"] = "listen: 1.2.3.4:5\n";
  EXPECT_EQ(t.run({"config", "check", "b.yaml"}), exit_ok) << t.err;
  EXPECT_EQ(t.out, "b.yaml: good\n");
  t.files["b.yaml"] = "lisen: x\nshards: many\n";
  t.context.environment["BERTH_SHARDS"] = "nonsense";
  EXPECT_EQ(t.run({"config", "check", "b.yaml"}), exit_failed);
  EXPECT_EQ(t.err,
            "b.yaml:1:1: unknown member \"lisen\" of the configuration; did you mean \"listen\"?\n"
            "b.yaml:2:9: shards must be a whole decimal number, not \"many\"\n");
  EXPECT_EQ(t.run({"config", "check", "none.yaml"}), exit_failed);
}

TEST(CmdConfig, ShowSaysWhereEachValueIsFrom) {
  Terminal t;
  t.files["b.yaml"] = "listen: 1.2.3.4:5\nlog_level: warn\n";
  t.context.environment["BERTH_LOG_LEVEL"] = "debug";
  EXPECT_EQ(t.run({"config", "show", "-c", "b.yaml", "--state", "s", "--set", "lease.ttl=20s"}),
            exit_ok)
      << t.err;
  EXPECT_THAT(t.out, HasSubstr("# b.yaml:1\n"));
  EXPECT_THAT(t.out, HasSubstr("# environment BERTH_LOG_LEVEL\n"));
  EXPECT_THAT(t.out, HasSubstr("lease.ttl: 20s"));
  EXPECT_THAT(t.out, HasSubstr("# command line\n"));
  EXPECT_EQ(t.run({"config", "show", "--json", "--listen", "127.0.0.1:0"}), exit_ok);
  EXPECT_THAT(t.out, HasSubstr(R"("name":"listen","origin":"command_line")"));
}

TEST(CmdConfig, ServeReadsTheSame) {
  Terminal t;
  Arguments a;
  a.options["--state"] = {"s"};
  a.options["--scheduler"] = {"local"};
  a.options["--set"] = {"gateway.body_limit=1MiB"};
  auto loaded = configuration(t.context, a);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->config.state_dir, "/home/alice/s") << "relative to where one stands";
  EXPECT_EQ(loaded->config.shared_dir, "/home/alice/s/shared");
  EXPECT_EQ(loaded->config.scheduler, config::SchedulerChoice::local);
  EXPECT_EQ(loaded->config.gateway.body_limit, 1 << 20);
  a.options["--set"] = {"lease.tl=1s"};
  EXPECT_THAT(configuration(t.context, a).error().message,
              HasSubstr("did you mean \"lease.ttl\"?"));
  a.options["--set"] = {"listen"};
  EXPECT_THAT(configuration(t.context, a).error().message, HasSubstr("NAME=VALUE"));
}

}  // namespace
}  // namespace berth::cli
