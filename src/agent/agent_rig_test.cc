#include "agent/agent_rig.h"

#include <nlohmann/json.hpp>

namespace berth::agent {

Task<void> ControlFake::serve(http::Exchange& x) {
  std::string path(x.head().path()), authorization(x.head().authorization);
  if (!x.body_is_here()) (void)co_await x.receive_body(1 << 20);
  std::string body(x.body());
  http::Response r;
  if (path == "/berth/v1/leases") {
    auto request = proto::parse_register_request(body);
    EXPECT_TRUE(request.ok()) << (request ? "" : request.error().message);
    registration = *request;
    credential = authorization;
    told.push_back("register");
    if (refuse_with) {
      r.status = refuse_with;
      r.body = R"({"error":{"message":"not yours"}})";
    } else {
      lease = "lease" + std::to_string(++registrations);
      proto::RegisterReply reply;
      reply.lease_id = lease;
      reply.public_name = "alice/" + registration.service;
      reply.heartbeat = milliseconds(100);
      r.body = dump_json(proto::to_json(reply));
    }
  } else if (authorization != "Bearer " + registration.renew ||
             path.find("/leases/" + lease + "/") == std::string::npos) {
    r.status = 404;
  } else if (path.ends_with("/heartbeat")) {
    auto beat = proto::parse_heartbeat_request(body);
    EXPECT_TRUE(beat.ok());
    std::string state(to_string(beat->state));
    // How often it says that it loads depends on the machine's speed.
    bool again = state == "loading" || (!told.empty() && told.back() == state);
    if (!again) told.push_back(state);
    last = *beat;
    // The dial-back.
    if (beat->state == LeaseState::ready && dialled == 0) dialled = co_await dial_back();
    proto::HeartbeatReply reply;
    if (drain) reply.directive = proto::Directive::drain;
    reply.why = "scaled down";
    r.body = dump_json(proto::to_json(reply));
  } else if (path.ends_with("/end")) {
    auto report = proto::parse_end_report(body);
    EXPECT_TRUE(report.ok());
    end = *report;
    told.push_back("end");
    r.body = "{}";
  }
  co_await x.respond(std::move(r));
}

}  // namespace berth::agent
