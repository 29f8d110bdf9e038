#include "cli/cmd_chat.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/call.h"
#include "config/yaml_read.h"

namespace berth::cli {
namespace {

constexpr size_t kLongestLine = size_t{8} << 20;

struct Settings {
  std::string model;
  std::optional<int64_t> max_tokens;
  std::string system;
};

// The name that clients put in `model`: "alice/qwen" for the "qwen" of alice.
std::string public_name(Context& context, const std::string& name) {
  auto api = context.api();
  if (!api) return name;
  auto reply = (*api)->call(ApiRequest{"GET", service_path(name), "", seconds(10)});
  if (!reply || reply->status != 200) return name;
  Answer answer{exit_ok, 200, reply->body};
  std::string found = text_of(answer.document(), "name");
  return found.empty() ? name : found;
}

enum class Outcome { answered, interrupted, failed };

// One answer, printed as it comes and kept in `text`.
Outcome answer_once(Context& context, const Settings& settings, const Json& messages,
                    std::string& text) {
  auto api = context.api();
  if (!api) {
    fail(context, api.error().message);
    return Outcome::failed;
  }
  Json body = {{"model", settings.model}, {"messages", messages}, {"stream", true}};
  if (settings.max_tokens) body["max_tokens"] = *settings.max_tokens;
  ApiRequest request{"POST", "/v1/chat/completions", dump_json(body), minutes(10)};
  ChatStream stream;
  auto reply = (*api)->stream(request, [&](std::string_view bytes) {
    std::string more = harmless(stream.feed(bytes));
    text += more;
    if (!more.empty()) context.out(more);
    return stream.done() || !stream.error().empty() ? StreamStep::stop : StreamStep::go_on;
  });
  if (!text.empty() && !text.ends_with('\n')) context.out("\n");
  if (!reply) {
    if (reply.error().code == Code::cancelled) return Outcome::interrupted;
    fail(context, fmt::format("chat: {}", reply.error().message));
    return Outcome::failed;
  }
  if (reply->status != 200) {
    fail(context, fmt::format("chat: {}", error_message(reply->status, reply->body)));
    return Outcome::failed;
  }
  if (!stream.error().empty()) {
    fail(context, "chat: the answer broke off: " + stream.error());
    return Outcome::failed;
  }
  if (!stream.done() && stream.finish_reason().empty()) {
    fail(context, "chat: the answer broke off before its end");
    return Outcome::failed;
  }
  if (stream.finish_reason() == "length") context.err("(cut at the limit of tokens)\n");
  return Outcome::answered;
}

void add_message(Json& messages, const char* role, const std::string& content) {
  messages.push_back({{"role", role}, {"content", content}});
}

int converse(Context& context, const Settings& settings, Json messages) {
  context.err(fmt::format("{}; Ctrl-C stops an answer, Ctrl-D ends the chat\n", settings.model));
  while (auto line = context.read_line("> ")) {
    if (line->empty()) continue;
    add_message(messages, "user", *line);
    std::string text;
    switch (answer_once(context, settings, messages, text)) {
      case Outcome::failed:
        messages.erase(messages.size() - 1);
        break;
      case Outcome::interrupted:
      case Outcome::answered:
        add_message(messages, "assistant", text);
        break;
    }
  }
  context.out("\n");
  return exit_ok;
}

}  // namespace

std::string ChatStream::event(std::string_view line) {
  if (!line.starts_with("data:")) return "";
  line.remove_prefix(5);
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (line == "[DONE]") {
    done_ = true;
    return "";
  }
  auto document = parse_json(line);
  if (!document || !document->is_object()) return "";
  if (auto error = document->find("error"); error != document->end() && !error->is_null()) {
    error_ = error_message(0, line);
    return "";
  }
  std::string out;
  for (const Json& choice : list_of(*document, "choices")) {
    if (!choice.is_object()) continue;
    if (std::string reason = text_of(choice, "finish_reason"); !reason.empty())
      finish_reason_ = reason;
    auto delta = choice.find("delta");
    if (delta == choice.end() || !delta->is_object()) continue;
    auto content = delta->find("content");
    if (content != delta->end() && content->is_string()) out += content->get<std::string>();
  }
  return out;
}

std::string ChatStream::feed(std::string_view bytes) {
  std::string out;
  for (char c : bytes) {
    if (c == '\n' || c == '\r') {
      if (!line_.empty()) out += event(line_);
      line_.clear();
    } else if (line_.size() < kLongestLine) {
      line_ += c;
    }
  }
  return out;
}

int run_chat(Context& context, const Arguments& arguments) {
  Settings settings;
  if (arguments.has("--max-tokens")) {
    std::string why;
    settings.max_tokens = config::parse_integer(arguments.value("--max-tokens"), why);
    if (!settings.max_tokens || *settings.max_tokens < 1)
      return fail(context, "chat: --max-tokens must be a number over 0", exit_usage);
  }
  settings.model = public_name(context, arguments.positional(0));
  Json messages = Json::array();
  if (arguments.has("--system")) add_message(messages, "system", arguments.value("--system"));
  std::string prompt = arguments.positional(1);
  if (prompt.empty() && context.in_is_terminal)
    return converse(context, settings, std::move(messages));
  if (prompt.empty()) {
    auto text = context.read_file("-");
    if (!text) return fail(context, text.error().message);
    prompt = *text;
  }
  if (prompt.empty()) return fail(context, "chat: the prompt is empty", exit_usage);
  add_message(messages, "user", prompt);
  std::string text;
  switch (answer_once(context, settings, messages, text)) {
    case Outcome::answered:
      return exit_ok;
    case Outcome::interrupted:
      return fail(context, "interrupted");
    case Outcome::failed:
      break;
  }
  return exit_failed;
}

}  // namespace berth::cli
