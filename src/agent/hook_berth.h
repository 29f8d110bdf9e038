// The agent's side of its conversation with Berth: register, heartbeat, end.
//
// One call is one try; when to try again is lifecycle/'s business. A registration proves who asks
// with the first credential that works: the join token of a declared replica; else a MUNGE
// credential over the request's body; else the user's API key. The renewal token and the front's
// secret are made here, at random, once for the life of the agent.
// Guarantees: never a proxy; each try has a deadline of seconds, so that a Berth that restarts is
// noticed; nothing secret is in a message or log.
// Threading: the loop's thread; names are resolved and MUNGE is called on the pool.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lifecycle/agent_lifecycle.h"
#include "proto/control.h"
#include "runtime/address.h"
#include "runtime/blocking_pool.h"
#include "runtime/tls.h"

namespace berth::agent {

struct BerthPlace {
  std::string authority;  // "host:port" or "unix:/path", for resolving
  std::string host;       // of the Host field and TLS
  bool tls = false;
};
// "http://host[:port]", "https://host[:port]", "unix:/path"; a trailing "/" or "/v1" is dropped.
Result<BerthPlace> parse_berth_url(std::string_view url);

struct BerthSettings {
  BerthPlace place;
  std::shared_ptr<const runtime::TlsContext> tls;
  std::string join_file;  // "": none
  std::string key;        // "": none
  bool use_munge = false;
  std::string munge_socket;  // "": libmunge's default
};

class Berth {
 public:
  Berth(runtime::Loop& loop, runtime::BlockingPool& pool, BerthSettings settings);

  // The address connected to last, or the first that the name resolves to.
  runtime::Task<Result<runtime::Address>> locate();

  struct RegisterOutcome {
    std::optional<proto::RegisterReply> reply;
    lifecycle::RegisterFailed failure;  // without a reply
  };
  // Keeps the lease's id on success. `request` comes with secret and renew filled in.
  runtime::Task<RegisterOutcome> register_replica(proto::RegisterRequest request);

  struct HeartbeatOutcome {
    std::optional<proto::HeartbeatReply> reply;
    lifecycle::HeartbeatFailed failure;
    std::string why;
  };
  runtime::Task<HeartbeatOutcome> heartbeat(proto::HeartbeatRequest request);

  // True: Berth knows, or does not know the lease any more.
  runtime::Task<bool> end(proto::EndReport report);

  const std::string& secret() const { return secret_; }
  const std::string& renew() const { return renew_; }

 private:
  struct Answer {
    int status = 0;
    std::string body;
  };
  runtime::Task<Result<Answer>> post(std::string path, std::string authorization, std::string body,
                                     Duration limit);
  // The values for "Authorization", best first.
  runtime::Task<std::vector<std::string>> credentials(std::string body, std::string& problems);

  runtime::Loop& loop_;
  runtime::BlockingPool& pool_;
  BerthSettings settings_;
  std::vector<runtime::Address> addresses_;
  std::string secret_;
  std::string renew_;
  std::string lease_id_;
};

// The token in a 0600 file of ours; others' and readable ones are refused.
Result<std::string> read_join_file(const std::string& path);

}  // namespace berth::agent
