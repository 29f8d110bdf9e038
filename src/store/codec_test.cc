#include "store/codec.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace berth::store {
namespace {

Instant at(int64_t ms) { return from_ms(1'700'000'000'000 + ms); }

AccessSpec access() {
  AccessSpec a;
  a.scope = AccessSpec::Scope::everybody;
  a.projects = {"p1", "p2"};
  a.users = {"bob"};
  a.groups = {"g"};
  return a;
}

// Every member differs from its default: one that is not stored breaks equality.
ServiceRecord full_service() {
  ServiceRecord s;
  s.owner = "alice";
  s.project = "gaia";
  s.public_name = "alice/m";
  s.generation = (uint64_t{1} << 53) + 1;
  s.wanted = ServiceRecord::Wanted::stopped;
  s.created_at = at(1);
  s.updated_at = at(2);
  s.resumed_at = at(3);
  s.restart_nonce = 4;
  ServiceSpec& p = s.spec;
  p.name = "m";
  p.engine = EngineKind::sglang;
  p.model = "/models/x";
  p.args = {"--a", "b c", "\"'$`\\\n", ""};
  p.command = {"run", "{port}"};
  p.served_model_name = "x";
  p.setup = "module load cuda\n";
  p.env = {{"A", "1"}, {"B", ""}};
  p.replicas = 3;
  p.access = access();
  p.isolation = Isolation::network_namespace;
  p.load_timeout = seconds(17);
  p.drain_grace = milliseconds(1234);
  p.log_dir = "/logs";
  p.max_start_attempts = 9;
  ResourceSpec& r = p.resources;
  r.partition = "h100";
  r.account = "gaia";
  r.qos = "q";
  r.reservation = "r";
  r.constraint = "c";
  r.gpu_type = "h100";
  r.gpus = 4;
  r.nodes = 2;
  r.cpus_per_task = 16;
  r.mem_mib = 98304;
  r.time_limit = hours(8);
  r.exclude_nodes = {"n1", "n2"};
  return s;
}

ReplicaRecord full_replica() {
  ReplicaRecord r;
  r.key = "berth-0123456789abcdef";
  r.service = "alice/m";
  r.generation = 3;
  r.restart_nonce = 4;
  r.partition = "h100";
  r.handover_at = from_ms(61);
  r.gap_told_at = from_ms(62);
  r.extend_sent_at = from_ms(63);
  r.extensions = 2;
  r.state = ReplicaState::unhealthy;
  r.state_since = at(5);
  r.intended_at = at(6);
  r.submit = SubmitState::refused;
  r.submit_sent_at = at(7);
  r.submit_attempts = 8;
  r.submit_error = "AssocMaxSubmitJobLimit";
  r.refused_code = Code::exhausted;
  r.exclude_nodes = {"n9"};
  r.job = {42, "lab", at(9000)};
  r.restarts = 1;
  r.reason = "ReqNodeNotAvail, UnavailableNodes:n[1-2]|x";
  r.pending_class = PendingClass::never;
  r.reason_since = at(10);
  r.estimated_start = at(11);
  r.node = "n3";
  r.started_at = at(12);
  r.ends_at = at(13);
  r.ready_at = at(14);
  r.start = {at(21), at(22), at(23), at(24)};
  r.last_seen_at = at(15);
  r.lease_id = "l1";
  r.stop = StopIntent{at(16), "scaled down", at(17), at(18), 2, EndCause::crashed};
  r.agent_end = AgentEnd{at(19), EndCause::load_timeout, "too slow", 3, 9};
  r.ended_at = at(20);
  r.end_cause = EndCause::preempted;
  r.end_detail = "d";
  r.exit_code = 143;
  r.signal = 15;
  return r;
}

LeaseRecord full_lease() {
  LeaseRecord l;
  l.id = "l1";
  l.public_name = "alice/m";
  l.replica_key = "k";
  l.owner = "alice";
  l.project = "gaia";
  l.access = access();
  l.job = {7, "lab", at(1000)};
  l.node = "n1";
  l.address = "10.0.0.1:4000";
  l.secret = "s";
  l.secret_digest = "d";
  l.served_model = "x";
  l.engine = EngineKind::tei;
  l.context_length = 65536;
  l.state = LeaseState::draining;
  l.detail = "ä";
  l.registered_at = at(1);
  l.renewed_at = at(2);
  l.expires_at = at(3);
  l.stops_at = at(4);
  l.start.engine_at = at(5);
  return l;
}

KeyRecord full_key() {
  return {"k_1", "laptop", "digest", "alice", "gaia", {"g1", "g2"}, KeyRecord::Role::operator_,
          at(1), at(2),    at(3)};
}

GrantRecord full_grant() { return {"name", "project:gaia", "root", at(1)}; }

template <class Record>
void expect_round_trip(const Record& record) {
  Result<Record> back = decode<Record>(encode(record));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(*back, record);
  Record empty;
  Result<Record> blank = decode<Record>(encode(empty));
  ASSERT_TRUE(blank.ok()) << blank.error().message;
  EXPECT_EQ(*blank, empty);
  EXPECT_NE(*back, empty);
}

TEST(Codec, EveryRecordReadsBackEqual) {
  expect_round_trip(full_service());
  expect_round_trip(full_replica());
  expect_round_trip(full_lease());
  expect_round_trip(full_key());
  expect_round_trip(full_grant());
}

// A member that encode() leaves out would survive the test above if full_*() left it out too.
TEST(Codec, TheDocumentsHoldAsManyMembersAsTheRecords) {
  auto members = [](const std::string& doc) { return parse_json(doc).value().size() - 1; };
  EXPECT_EQ(members(encode(full_service())), 10u);
  EXPECT_EQ(members(encode(full_replica())), 38u);
  EXPECT_EQ(members(encode(full_lease())), 21u);
  EXPECT_EQ(members(encode(full_key())), 10u);
  EXPECT_EQ(members(encode(full_grant())), 4u);
  Json spec = parse_json(encode(full_service())).value()["spec"];
  EXPECT_EQ(spec.size(), 16u);
  EXPECT_EQ(spec["resources"].size(), 12u);
}

template <class E, class ToString>
void expect_words(int n, const std::string& member, E ReplicaRecord::*field, ToString word) {
  for (int i = 0; i < n; ++i) {
    ReplicaRecord r;
    r.*field = static_cast<E>(i);
    EXPECT_EQ(parse_json(encode(r)).value()[member], word(static_cast<E>(i)));
    EXPECT_EQ(decode<ReplicaRecord>(encode(r)).value(), r);
  }
}

TEST(Codec, WordsAreThoseTheCodeSpeaks) {
  auto say = [](auto e) { return std::string(to_string(e)); };
  expect_words(7, "state", &ReplicaRecord::state, say);
  expect_words(4, "submit", &ReplicaRecord::submit, say);
  for (int i = 0; i < 13; ++i) {
    ReplicaRecord r;
    r.end_cause = static_cast<EndCause>(i);
    EXPECT_EQ(parse_json(encode(r)).value()["end_cause"], say(*r.end_cause));
  }
  for (int i = 0; i < 12; ++i) {
    ReplicaRecord r;
    r.refused_code = static_cast<Code>(i);
    EXPECT_EQ(parse_json(encode(r)).value()["refused_code"], say(*r.refused_code));
    EXPECT_EQ(decode<ReplicaRecord>(encode(r)).value(), r);
  }
  for (int i = 0; i < 5; ++i) {
    ServiceRecord s;
    s.spec.engine = static_cast<EngineKind>(i);
    EXPECT_EQ(parse_json(encode(s)).value()["spec"]["engine"], say(s.spec.engine));
  }
  for (int i = 0; i < 4; ++i) {
    LeaseRecord l;
    l.state = static_cast<LeaseState>(i);
    EXPECT_EQ(parse_json(encode(l)).value()["state"], say(l.state));
  }
}

TEST(Codec, ReadsOlderDocumentsAndRefusesWrongOnes) {
  EXPECT_EQ(decode<GrantRecord>(R"({"v":1,"name":"n","later":{"x":1}})").value().name, "n");
  EXPECT_EQ(decode<ServiceRecord>(R"({"v":1})").value(), ServiceRecord{});
  for (const char* bad :
       {R"({"v":2,"name":"n"})", R"({"name":"n"})", "[]", "{", R"({"v":1,"name":5})",
        R"({"v":1,"created_at":"soon"})", R"({"v":1,"created_at":1.5})"}) {
    Result<GrantRecord> r = decode<GrantRecord>(bad);
    ASSERT_FALSE(r.ok()) << bad;
    EXPECT_FALSE(r.error().message.empty());
  }
  Result<ReplicaRecord> word = decode<ReplicaRecord>(R"({"v":1,"state":"asleep"})");
  ASSERT_FALSE(word.ok());
  EXPECT_NE(word.error().message.find("state: unknown word \"asleep\""), std::string::npos);
}

}  // namespace
}  // namespace berth::store
