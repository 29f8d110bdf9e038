// chat: talk to a model from the terminal; the answer is shown as it comes.
//
// Ctrl-C ends the answer (and closes its request, so that the engine stops); at the prompt it ends
// the chat. With a prompt as argument or on standard input, one answer and done.
#pragma once

#include <string>
#include <string_view>

#include "cli/command.h"
#include "cli/context.h"

namespace berth::cli {

// Text out of a stream of chat completion events, cut at any byte.
class ChatStream {
 public:
  // The text that these bytes add to the answer.
  std::string feed(std::string_view bytes);
  bool done() const { return done_; }                  // [DONE] was seen
  const std::string& error() const { return error_; }  // an error event's message
  const std::string& finish_reason() const { return finish_reason_; }

 private:
  std::string event(std::string_view line);
  std::string line_;
  bool done_ = false;
  std::string error_;
  std::string finish_reason_;
};

int run_chat(Context& context, const Arguments& arguments);

}  // namespace berth::cli
