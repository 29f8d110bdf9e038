// One request of a command: the document that comes back, or a message and the right exit status.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "cli/command.h"
#include "cli/context.h"
#include "cli/table.h"

namespace berth::cli {

// Everything but unreserved characters escaped, '/' too: a name as one segment of a path.
std::string percent_encode(std::string_view text);
// "/berth/v1/services/NAME" and what follows.
std::string service_path(std::string_view name, std::string_view more = "");

// What asking came to. `status` is exit_ok with a document, else what the command exits with; the
// message has then been printed.
struct Answer {
  int status = exit_failed;
  int http_status = 0;    // 0: no answer
  std::string body;       // as it came
  Json document() const;  // an object; empty when the body is none

  explicit operator bool() const { return status == exit_ok; }
};

enum class Effect { reads, changes };

// Asks and prints what went wrong to context.err: "berth: <what>: message". A change that may have
// been carried out is exit_unknown, with how to find out.
Answer ask(Context& context, std::string_view what, const ApiRequest& request, Effect effect);
// The same, but says nothing about an answer with this status.
Answer ask_quietly_for(int quiet_status, Context& context, std::string_view what,
                       const ApiRequest& request, Effect effect);

// GET, and POST, PUT or DELETE with a document.
Answer get(Context& context, std::string_view what, std::string path);
Answer change(Context& context, std::string_view what, std::string method, std::string path,
              const Json* document);

// The message in an error body, or a piece of the body, or the status.
std::string error_message(int http_status, std::string_view body);

// "berth: message\n" on standard error; returns `status`.
int fail(Context& context, std::string_view message, int status = exit_failed);

// Prints the API's document as it came.
int print_document(Context& context, const Answer& answer);

// Members of documents, with a default when missing or of another type.
std::string text_of(const Json& object, std::string_view member);
int64_t number_of(const Json& object, std::string_view member, int64_t fallback = 0);
// What a service's status_text says beyond its status: "Resources, since 3m05s"; may be empty.
std::string status_words(const Json& service);
// An array member; an empty one when it is none.
const Json& list_of(const Json& object, std::string_view member);

inline Paint paint_for(const Context& context) {
  return context.out_is_terminal && context.variable("NO_COLOR").empty() ? Paint::yes : Paint::no;
}

}  // namespace berth::cli
