// The API over HTTP or the daemon's UNIX socket.
//
// One connection a request; no proxies, whatever the environment says; no retries. All addresses
// of a name are tried in turn as long as nothing was sent. Ctrl-C (see `interrupted`) ends a wait
// within 50 ms: a read is `cancelled`, a change that was sent is `unknown_outcome`.
// Threading: the calling thread, which it blocks; an event loop of its own runs for each call.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/api.h"
#include "cli/target.h"
#include "http/client.h"

namespace berth::cli {

class HttpApi final : public Api {
 public:
  // `authorities_file`: PEM to trust for https; empty: the system's. `interrupted` is asked often.
  static Result<std::unique_ptr<HttpApi>> make(Target target, const std::string& authorities_file,
                                               std::function<bool()> interrupted);

  Result<ApiReply> call(const ApiRequest& request) override;
  Result<ApiReply> stream(const ApiRequest& request,
                          const std::function<StreamStep(std::string_view)>& on_piece) override;
  std::string place() const override { return target_.url; }

 private:
  HttpApi(Target target, std::function<bool()> interrupted)
      : target_(std::move(target)), interrupted_(std::move(interrupted)) {}

  // `on_piece`: for the body of a 200; nullptr: it is gathered.
  Result<ApiReply> run(const ApiRequest& request,
                       const std::function<StreamStep(std::string_view)>* on_piece);
  Result<std::vector<runtime::Address>> addresses() const;
  http::ClientRequest client_request(const ApiRequest& request,
                                     const runtime::Address& address) const;

  Target target_;
  std::shared_ptr<const runtime::TlsContext> tls_;
  std::function<bool()> interrupted_;
};

}  // namespace berth::cli
