#include "agent/hook_berth.h"

#include <sys/stat.h>

#include "agent/agent_rig.h"

namespace berth::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(BerthUrl, Parses) {
  auto plain = parse_berth_url("http://berth.site:7270/v1");
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->authority, "berth.site:7270");
  EXPECT_FALSE(plain->tls);
  EXPECT_EQ(parse_berth_url("https://berth.site/")->authority, "berth.site:443");
  EXPECT_TRUE(parse_berth_url("https://berth.site")->tls);
  EXPECT_EQ(parse_berth_url("http://[::1]")->authority, "[::1]:80");
  EXPECT_EQ(parse_berth_url("http://[::1]:7270")->authority, "[::1]:7270");
  EXPECT_EQ(parse_berth_url("unix:/run/berth.sock")->authority, "unix:/run/berth.sock");
  for (const char* bad : {"", "berth.site:7270", "http://", "http://k@h/", "http://h/path"})
    EXPECT_FALSE(parse_berth_url(bad)) << bad;
}

class BerthTest : public ::testing::Test {
 protected:
  BerthSettings settings() {
    BerthSettings s;
    s.place = *parse_berth_url(control.url);
    s.key = "the-key";
    return s;
  }
  proto::RegisterRequest request() {
    proto::RegisterRequest r;
    r.service = "fake";
    r.address = "127.0.0.1:9";
    return r;
  }
  Loop loop;
  ControlFake control{loop};
  runtime::BlockingPool pool{1};
};

TEST_F(BerthTest, RegistersHeartbeatsAndEnds) {
  Berth berth(loop, pool, settings());
  auto outcome = loop.run_until(berth.register_replica(request()));
  ASSERT_TRUE(outcome.reply) << outcome.failure.why;
  EXPECT_EQ(control.credential, "Bearer the-key");
  EXPECT_EQ(control.registration.secret, berth.secret());
  EXPECT_GE(berth.secret().size(), 32u);
  EXPECT_NE(berth.secret(), berth.renew());
  auto beat = loop.run_until(berth.heartbeat({}));
  EXPECT_TRUE(beat.reply) << beat.why;
  EXPECT_TRUE(loop.run_until(berth.end({EndCause::stopped, "x", std::nullopt, std::nullopt})));
  ASSERT_TRUE(control.end);
  EXPECT_EQ(control.end->cause, EndCause::stopped);
  control.lease = "other";
  beat = loop.run_until(berth.heartbeat({}));
  EXPECT_FALSE(beat.reply);
  EXPECT_EQ(beat.failure.kind, lifecycle::HeartbeatFailed::Kind::unknown_lease);
  EXPECT_TRUE(loop.run_until(berth.end({}))) << "an end that Berth does not know is over";
}

TEST_F(BerthTest, TellsARefusalFromABerthThatIsNotThere) {
  using Kind = lifecycle::RegisterFailed::Kind;
  Berth berth(loop, pool, settings());
  for (auto [status, kind] : {std::pair{403, Kind::refused},
                              {401, Kind::refused},
                              {503, Kind::unreachable},
                              {429, Kind::unreachable},
                              {500, Kind::unreachable}}) {
    control.refuse_with = status;
    auto outcome = loop.run_until(berth.register_replica(request()));
    EXPECT_FALSE(outcome.reply);
    EXPECT_EQ(outcome.failure.kind, kind) << status;
    EXPECT_THAT(outcome.failure.why, HasSubstr("not yours"));
    EXPECT_THAT(outcome.failure.why, Not(HasSubstr("the-key")));
  }
  BerthSettings nobody = settings();
  nobody.place.authority = "127.0.0.1:1";
  Berth away(loop, pool, nobody);
  auto outcome = loop.run_until(away.register_replica(request()));
  EXPECT_EQ(outcome.failure.kind, Kind::unreachable);
  EXPECT_FALSE(loop.run_until(away.heartbeat({})).reply);
}

TEST_F(BerthTest, TheJoinTokenComesFirstAndMustBePrivate) {
  std::string path = ::testing::TempDir() + "/join-" + std::to_string(getpid());
  std::ofstream(path) << "one-time\n";
  chmod(path.c_str(), 0600);
  BerthSettings s = settings();
  s.join_file = path;
  Berth berth(loop, pool, s);
  ASSERT_TRUE(loop.run_until(berth.register_replica(request())).reply);
  EXPECT_EQ(control.credential, "Join one-time");
  chmod(path.c_str(), 0644);
  auto open_to_all = read_join_file(path);
  ASSERT_FALSE(open_to_all);
  EXPECT_THAT(open_to_all.error().message, HasSubstr("0600"));
  unlink(path.c_str());
  EXPECT_FALSE(read_join_file(path));
}

TEST_F(BerthTest, WithoutAnyCredentialItSaysWhatToDo) {
  BerthSettings s = settings();
  s.key.clear();
  s.use_munge = true;
  s.munge_socket = "/nonexistent/munge.socket";
  Berth berth(loop, pool, s);
  auto outcome = loop.run_until(berth.register_replica(request()));
  EXPECT_FALSE(outcome.reply);
  EXPECT_EQ(outcome.failure.kind, lifecycle::RegisterFailed::Kind::refused);
  EXPECT_THAT(outcome.failure.why, HasSubstr("BERTH_KEY"));
  EXPECT_EQ(control.registrations, 0);
}

}  // namespace
}  // namespace berth::agent
