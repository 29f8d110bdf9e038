#include "cli/cmd_login.h"

#include <fmt/format.h>

#include "cli/call.h"
#include "cli/target.h"

namespace berth::cli {
namespace {

std::string trimmed(std::string text) {
  size_t last = text.find_last_not_of(" \t\r\n");
  text.erase(last == std::string::npos ? 0 : last + 1);
  size_t first = text.find_first_not_of(" \t\r\n");
  return first == std::string::npos ? "" : text.substr(first);
}

Result<std::string> read_key(Context& context, const Arguments& arguments) {
  if (!arguments.has("--key-file") && context.in_is_terminal) {
    auto typed = context.read_secret("key: ");
    if (!typed) return invalid_argument("no key was typed");
    return trimmed(*typed);
  }
  std::string path = arguments.has("--key-file") ? arguments.value("--key-file") : "-";
  auto text = context.read_file(path);
  if (!text) return std::move(text).error();
  return trimmed(*text);
}

bool looks_like_a_key(const std::string& key) {
  for (char c : key)
    if (c <= 0x20 || c >= 0x7F || c == '"' || c == '\\') return false;
  return !key.empty() && key.size() <= 512;
}

}  // namespace

int run_login(Context& context, const Arguments& arguments) {
  std::string url = arguments.positional(0);
  if (url.empty()) url = context.variable("BERTH_URL");
  if (url.empty())
    return fail(context, "login: URL is missing (and BERTH_URL is not set)", exit_usage);
  if (auto target = parse_url(url); !target)
    return fail(context, "login: " + target.error().message, exit_usage);
  std::string path = login_path(context.environment);
  if (path.empty()) return fail(context, "login: HOME is not set, so there is no place for it");
  auto key = read_key(context, arguments);
  if (!key) return fail(context, "login: " + key.error().message);
  if (!looks_like_a_key(*key)) return fail(context, "login: that is no key");

  auto api = context.api_at(url, *key);
  if (!api) return fail(context, "login: " + api.error().message);
  auto reply = (*api)->call(ApiRequest{"GET", "/berth/v1/services", "", seconds(15)});
  if (!reply) return fail(context, "login: " + reply.error().message);
  if (reply->status != 200)
    return fail(context,
                fmt::format("login: {} says: {}", url, error_message(reply->status, reply->body)));
  if (Status ok = write_login(path, url, *key); !ok) return fail(context, ok.error().message);
  context.out(fmt::format("{}: the key works; kept in {}\n", url, path));
  return exit_ok;
}

}  // namespace berth::cli
