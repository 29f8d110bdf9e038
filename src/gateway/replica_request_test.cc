#include "gateway/replica_request.h"

#include <gtest/gtest.h>

namespace berth::gateway {
namespace {

route::Target replica(std::string address, std::string secret, std::string served) {
  route::Target t;
  t.address = std::move(address);
  t.secret = std::move(secret);
  t.served_model = std::move(served);
  return t;
}

proto::RequestHead parse(const std::string& text) {
  proto::RequestHead head;
  EXPECT_EQ(proto::parse_request(text, 0, head).state, proto::HeadState::done);
  return head;
}

const std::string kHead =
    "POST /v1/x HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer user\r\n"
    "Content-Type: application/json\r\nA: b\r\n\r\n";

TEST(ReplicaRequest, IsRebuiltForAnotherReplica) {
  for (size_t padding : {size_t{0}, ReplicaRequest::kInOne}) {
    std::string method = "POST", target = "/v1/x", id = "id1";
    ReplicaRequest r(method, target, id);
    std::string filler(padding, ' ');
    std::string body = "{\"model\":\"one\", \"n\":1.0" + filler + "}";
    r.build(replica("10.0.0.1:1", "s1", "one"), parse(kHead), body);
    std::string first = r.upstream().head + r.upstream().body;
    EXPECT_EQ(first,
              "POST /v1/x HTTP/1.1\r\nHost: 10.0.0.1:1\r\nAuthorization: Bearer s1\r\n"
              "Content-Type: application/json\r\nA: b\r\nX-Request-Id: id1\r\n"
              "Accept-Encoding: identity\r\nContent-Length: " +
                  std::to_string(body.size()) + "\r\n\r\n" + body);
    EXPECT_EQ(r.upstream().body.empty(), padding == 0);
    // There and back again: nothing of the second replica stays.
    r.rebuild(replica("unix:/run/x", "", "twenty-two"));
    std::string second = r.upstream().head + r.upstream().body;
    EXPECT_EQ(second.find("s1"), second.npos);
    EXPECT_NE(second.find("Host: localhost\r\nContent-Type"), second.npos);
    EXPECT_TRUE(second.ends_with("{\"model\":\"twenty-two\", \"n\":1.0" + filler + "}"));
    r.rebuild(replica("10.0.0.1:1", "s1", "one"));
    EXPECT_EQ(r.upstream().head + r.upstream().body, first);
  }
}

TEST(ReplicaRequest, AnEditedBodyIsLikeOneThatCameSo) {
  for (size_t padding : {size_t{0}, ReplicaRequest::kInOne}) {
    const std::string method = "POST", target = "/v1/x";
    const std::string filler(padding, ' ');
    const std::string body = "{\"model\":\"one\"" + filler + "}";
    const std::string edited = "{\"model\":\"twenty-two\"" + filler + "}";
    proto::SpliceList edits;
    edits.add({9, 5}, "\"twenty-two\"");
    ReplicaRequest a(method, target, "id"), b(method, target, "id");
    a.build_edited(replica("h:1", "s", "twenty-two"), parse(kHead), body, edits);
    b.build(replica("h:1", "s", "twenty-two"), parse(kHead), edited);
    EXPECT_EQ(a.upstream().head, b.upstream().head);
    EXPECT_EQ(a.upstream().body, b.upstream().body);
  }
}

}  // namespace
}  // namespace berth::gateway
