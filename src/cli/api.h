// The API as commands see it: requests out, replies back. Commands are tested against ApiFake; the
// program uses HttpApi (http_api.h).
//
// Errors of call() and stream() tell apart what matters after a mutation:
//   unavailable       nothing was sent: no such host, refused, unreachable
//   unknown_outcome   it was sent, wholly or in part, and no whole answer came back
//   cancelled         the user pressed Ctrl-C
// An answer of any status is a reply, not an error. Threading: one call at a time.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace berth::cli {

struct ApiRequest {
  std::string method = "GET";
  std::string path;                // with its query, percent-encoded
  std::string body;                // JSON; empty: none
  Duration timeout = seconds(30);  // for the whole answer; of a stream, between two pieces
};

struct ApiReply {
  int status = 0;
  std::string body;
};

enum class StreamStep { go_on, stop };

class Api {
 public:
  virtual ~Api() = default;
  virtual Result<ApiReply> call(const ApiRequest& request) = 0;
  // Hands the body of a 200 to `on_piece` as it arrives; a body of another status is in the
  // reply. `stop` closes the connection and is a success.
  virtual Result<ApiReply> stream(const ApiRequest& request,
                                  const std::function<StreamStep(std::string_view)>& on_piece) = 0;
  // Where requests go, for messages: "http://127.0.0.1:7270".
  virtual std::string place() const = 0;
};

}  // namespace berth::cli
