#include "config/option.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace berth::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ConfigInput file(std::string text) {
  ConfigInput input;
  input.file_name = "berth.yaml";
  input.file_text = std::move(text);
  input.environment = {{"HOME", "/home/op"}};
  return input;
}

std::string option_problems_of(std::string text) {
  auto loaded = load_config(file(std::move(text)));
  return loaded ? "" : loaded.error().message;
}

TEST(Option, DefaultsLoadAndAreComplete) {
  ConfigInput input;
  input.environment = {{"HOME", "/home/op"}};
  auto loaded = load_config(input);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const Config& c = loaded->config;
  EXPECT_EQ(loaded->settings.size(), options().size());
  EXPECT_EQ(c.state_dir, "/home/op/.local/state/berth");
  EXPECT_EQ(c.shared_dir, "/home/op/.local/state/berth/shared");
  EXPECT_EQ(c.lease.ttl, seconds(10));
  EXPECT_EQ(c.lease.heartbeat, seconds(3));
  EXPECT_EQ(c.gateway.body_limit, 64 << 20);
  EXPECT_TRUE(c.gateway.cors_origins.empty());
  EXPECT_EQ(c.defaults.load_timeout, minutes(30));
  EXPECT_EQ(c.allow_root, "");
  EXPECT_FALSE(c.allow_loopback);
  EXPECT_EQ(c.gateway.half_close, HalfClose::cancel);
}

TEST(Option, ReadsNestedMembersAndTheirPlaces) {
  auto loaded = load_config(
      file("listen: 0.0.0.0:8443\nslurm:\n  poll_interval: 500ms\n  submit_as: owner\n"
           "gateway:\n  timeouts: {first_event: 20m}\n  cors_origins: [https://a, https://b]\n"
           "allow_root: the lab's only account\nrole: controller\nscheduler: slurm\n"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  const Config& c = loaded->config;
  EXPECT_EQ(c.listen, "0.0.0.0:8443");
  EXPECT_EQ(c.slurm.poll_interval, milliseconds(500));
  EXPECT_EQ(c.slurm.submit_as, SubmitAs::owner);
  EXPECT_EQ(c.gateway.timeouts.first_event, minutes(20));
  EXPECT_THAT(c.gateway.cors_origins, ElementsAre("https://a", "https://b"));
  EXPECT_EQ(c.role, Role::controller);
  EXPECT_EQ(c.scheduler, SchedulerChoice::slurm);
  std::string shown = show_config(*loaded);
  EXPECT_THAT(shown, HasSubstr("# berth.yaml:3"));
  EXPECT_THAT(shown, HasSubstr("gateway.cors_origins: [https://a, https://b]"));
  EXPECT_THAT(shown, HasSubstr("# default"));
}

TEST(Option, CommandLineWinsOverEnvironmentOverFile) {
  ConfigInput input = file("listen: 1.1.1.1:1\nshards: 2\nlog_level: warn\n");
  input.environment["BERTH_LISTEN"] = "2.2.2.2:2";
  input.environment["BERTH_SHARDS"] = "3";
  input.environment["BERTH_GATEWAY_CORS_ORIGINS"] = "https://a, https://b";
  input.environment["BERTH_URL"] = "http://not-an-option";
  input.command_line = {{"listen", "[::1]:0"}};
  auto loaded = load_config(input);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->config.listen, "[::1]:0");
  EXPECT_EQ(loaded->config.shards, 3);
  EXPECT_EQ(loaded->config.log_level, "warn");
  EXPECT_THAT(loaded->config.gateway.cors_origins, ElementsAre("https://a", "https://b"));
  std::string shown = show_config(*loaded);
  EXPECT_THAT(shown, HasSubstr("# command line"));
  EXPECT_THAT(shown, HasSubstr("# environment BERTH_SHARDS"));
  EXPECT_THAT(shown, HasSubstr("# berth.yaml:3"));
}

TEST(Option, ReportsEverythingAtOnceWithItsPlace) {
  std::string text = option_problems_of(
      "lisen: 1.2.3.4:5\nshards: 010\nscheduler: slrum\ngateway:\n  body_limit: 5 apples\n"
      "  timeouts:\n    conect: 1s\n    head: tomorrow\nlease: {ttl: 4s, heartbeat: 3s}\n"
      "isolation: {allow_loopback: yes}\nshards: 3\n");
  EXPECT_THAT(text, HasSubstr("berth.yaml:1:1: unknown member \"lisen\" of the configuration; did "
                              "you mean \"listen\"?"));
  EXPECT_THAT(text, HasSubstr("berth.yaml:2:9: shards must not begin with 0"));
  EXPECT_THAT(text, HasSubstr("berth.yaml:3:12: scheduler must be one of auto, slurm, local, not "
                              "\"slrum\"; did you mean \"slurm\"?"));
  EXPECT_THAT(text, HasSubstr("berth.yaml:5:15: gateway.body_limit must be a size"));
  EXPECT_THAT(text, HasSubstr("berth.yaml:7:5: unknown member \"conect\" of gateway.timeouts; did "
                              "you mean \"connect\"?"));
  EXPECT_THAT(text, HasSubstr("berth.yaml:8:11: gateway.timeouts.head must be a time"));
  EXPECT_THAT(text, HasSubstr("lease.heartbeat must be at most half of lease.ttl, so that one may "
                              "be lost (berth.yaml:9)"));
  EXPECT_THAT(text, HasSubstr("berth.yaml:10:29: isolation.allow_loopback must be true or false"));
  EXPECT_THAT(text, HasSubstr("berth.yaml:11:1: \"shards\" is given twice"));
}

TEST(Option, CrossChecks) {
  EXPECT_THAT(option_problems_of("tls: {cert: /c.pem}\n"), HasSubstr("tls.cert needs the other"));
  EXPECT_THAT(option_problems_of("node_address: {from: cidr}\n"), HasSubstr("node_address.cidr"));
  EXPECT_THAT(option_problems_of("node_address: {names: [gpu-ib]}\n"), HasSubstr("without {node}"));
  EXPECT_EQ(option_problems_of("node_address: {names: [\"{node}-ib\"]}\n"), "");
  EXPECT_THAT(option_problems_of("role: gateway\n"), HasSubstr("controller.url"));
  EXPECT_THAT(option_problems_of("listen: localhost\n"), HasSubstr("must be host:port"));
  EXPECT_THAT(option_problems_of("listen: \"::1:80\"\n"), HasSubstr("must be host:port"));
  EXPECT_THAT(option_problems_of("- a\n"), HasSubstr("must have members"));
  EXPECT_THAT(option_problems_of("gateway: 5\n"), HasSubstr("gateway must have members"));
  EXPECT_THAT(option_problems_of("a: 1\n---\nb: 2\n"), HasSubstr("one document"));
  EXPECT_EQ(option_problems_of("gateway:\n"), "");
  EXPECT_EQ(option_problems_of(""), "");
}

TEST(Option, SaysWhatNeedsARestart) {
  auto before = load_config(file("listen: 1.1.1.1:1\n")).value();
  auto after = load_config(file("listen: 1.1.1.1:2\ngateway: {body_limit: 1MiB}\n")).value();
  EXPECT_THAT(needing_restart(before, after), ElementsAre("listen"));
}

TEST(Option, ReferenceIsUpToDate) {
  std::string path = std::string(BERTH_SOURCE_DIR) + "/docs/ref/config.md";
  if (std::getenv("BERTH_UPDATE_GOLDEN")) std::ofstream(path) << config_reference();
  std::ifstream in(path);
  std::stringstream have;
  have << in.rdbuf();
  EXPECT_EQ(have.str(), config_reference())
      << "run BERTH_UPDATE_GOLDEN=1 build/release/unit_tests --gtest_filter=Option.Reference*";
}

TEST(Option, ThePackagedFileIsAccepted) {
  std::ifstream in(std::string(BERTH_SOURCE_DIR) + "/packaging/config/berth.yaml");
  std::stringstream text;
  text << in.rdbuf();
  ConfigInput input;
  input.file_name = "berth.yaml";
  input.file_text = text.str();
  input.environment["STATE_DIRECTORY"] = "/var/lib/berth";
  auto loaded = load_config(input);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->config.state_dir, "/var/lib/berth");
  EXPECT_EQ(loaded->config.gateway.access_log, "/var/lib/berth/access.log");
}

}  // namespace
}  // namespace berth::config
