#include "cli/cmd_key.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/call.h"

namespace berth::cli {
namespace {

// "30d" from now, or a time in RFC 3339 form, as the API wants it; "" when it is neither.
std::string expiry(const std::string& text, Instant now) {
  if (auto at = parse_rfc3339(text)) return to_rfc3339(*at);
  if (auto after = parse_duration(text)) return to_rfc3339(now + *after);
  return "";
}

std::string day(const std::string& time) { return time.substr(0, 10); }

}  // namespace

int run_key_create(Context& context, const Arguments& arguments) {
  std::string name = arguments.positional(0);
  Json body = {{"v", 1}, {"name", name}};
  for (const char* option : {"--user", "--project", "--role"})
    if (arguments.has(option)) body[std::string(option).substr(2)] = arguments.value(option);
  if (arguments.has("--group")) body["groups"] = arguments.values("--group");
  if (arguments.has("--expires")) {
    std::string at = expiry(arguments.value("--expires"), context.now());
    if (at.empty())
      return fail(context,
                  "key create: --expires must be a time such as 90d or 2027-01-31T00:00:00Z",
                  exit_usage);
    body["expires_at"] = at;
  }
  Answer answer = change(context, "key create " + name, "POST", "/berth/v1/keys", &body);
  if (!answer) return answer.status;
  if (arguments.has("--json")) return print_document(context, answer);
  Json document = answer.document();
  std::string key = text_of(document, "key");
  if (key.empty()) return fail(context, "key create: the answer holds no key");
  context.out(key + "\n");
  context.err(
      fmt::format("key {} ({}) is made; it is shown this once\n", text_of(document, "id"), name));
  return exit_ok;
}

int run_key_list(Context& context, const Arguments& arguments) {
  Answer answer = get(context, "key list", "/berth/v1/keys");
  if (!answer) return answer.status;
  if (arguments.has("--json")) return print_document(context, answer);
  Json document = answer.document();
  Table table({"ID", "NAME", "USER", "PROJECT", "ROLE", "CREATED", "EXPIRES", "STATE"});
  for (const Json& key : list_of(document, "keys")) {
    std::string expires = text_of(key, "expires_at");
    auto at = parse_rfc3339(expires);
    bool revoked = !text_of(key, "revoked_at").empty();
    std::string state = revoked ? "revoked" : at && *at < context.now() ? "expired" : "valid";
    table.add({{text_of(key, "id")},
               {text_of(key, "name")},
               {text_of(key, "user")},
               {text_of(key, "project")},
               {text_of(key, "role")},
               {day(text_of(key, "created_at"))},
               {expires.empty() ? "never" : day(expires)},
               {state, state == "valid" ? Colour::green : Colour::grey}});
  }
  context.out(table.text(paint_for(context)));
  return exit_ok;
}

int run_key_revoke(Context& context, const Arguments& arguments) {
  std::string id = arguments.positional(0);
  Answer answer = change(context, "key revoke " + id, "DELETE",
                         "/berth/v1/keys/" + percent_encode(id), nullptr);
  if (!answer) return answer.status;
  if (arguments.has("--json")) return print_document(context, answer);
  context.out(fmt::format("{}: revoked\n", id));
  return exit_ok;
}

int run_grant_add(Context& context, const Arguments& arguments) {
  std::string name = arguments.positional(0), holder = arguments.positional(1);
  Json body = {{"v", 1}, {"name", name}, {"holder", holder}};
  Answer answer = change(context, "grant add " + name, "POST", "/berth/v1/grants", &body);
  if (!answer) return answer.status;
  if (arguments.has("--json")) return print_document(context, answer);
  context.out(fmt::format("{}: granted to {}\n", name, holder));
  return exit_ok;
}

int run_grant_list(Context& context, const Arguments& arguments) {
  Answer answer = get(context, "grant list", "/berth/v1/grants");
  if (!answer) return answer.status;
  if (arguments.has("--json")) return print_document(context, answer);
  Json document = answer.document();
  Table table({"NAME", "HOLDER", "GRANTED BY", "SINCE"});
  for (const Json& grant : list_of(document, "grants"))
    table.add({{text_of(grant, "name")},
               {text_of(grant, "holder")},
               {text_of(grant, "granted_by")},
               {day(text_of(grant, "created_at"))}});
  context.out(table.text(paint_for(context)));
  return exit_ok;
}

int run_grant_rm(Context& context, const Arguments& arguments) {
  std::string name = arguments.positional(0);
  Answer answer = change(context, "grant rm " + name, "DELETE",
                         "/berth/v1/grants/" + percent_encode(name), nullptr);
  if (!answer) return answer.status;
  if (arguments.has("--json")) return print_document(context, answer);
  context.out(fmt::format("{}: no longer granted\n", name));
  return exit_ok;
}

}  // namespace berth::cli
