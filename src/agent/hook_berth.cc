#include "agent/hook_berth.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/id.h"
#include "base/json.h"
#include "http/client.h"
#include "identity/munge.h"
#include "runtime/resolve.h"

namespace berth::agent {
namespace {

using runtime::Task;

constexpr Duration kConnectLimit = seconds(2);
constexpr Duration kHeartbeatLimit = seconds(4);
// A registration may wait for slurmctld on Berth's side.
constexpr Duration kRegisterLimit = seconds(20);
constexpr size_t kSecretCharacters = 48;

// The message in an error body, or its beginning.
std::string words_of(const std::string& body) {
  auto document = parse_json(body);
  if (document && document->is_object() && document->contains("error")) {
    const Json& error = (*document)["error"];
    if (error.is_object() && error.contains("message") && error["message"].is_string())
      return error["message"].get<std::string>();
    if (error.is_string()) return error.get<std::string>();
  }
  return body.substr(0, 300);
}

}  // namespace

Result<BerthPlace> parse_berth_url(std::string_view url) {
  BerthPlace place;
  std::string_view rest = url;
  if (rest.starts_with("unix:")) {
    place.authority = url;
    place.host = "localhost";
    return place;
  }
  if (rest.starts_with("https://")) {
    place.tls = true;
    rest.remove_prefix(8);
  } else if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
  } else {
    return invalid_argument(fmt::format(
        "Berth's address \"{}\" must be http://HOST:PORT, https://HOST:PORT or unix:/path; set "
        "BERTH_URL or --url",
        url));
  }
  std::string_view authority = rest.substr(0, rest.find('/'));
  std::string_view path = rest.substr(authority.size());
  if (authority.empty() || authority.find('@') != std::string_view::npos ||
      (!path.empty() && path != "/" && path != "/v1" && path != "/v1/"))
    return invalid_argument(
        fmt::format("Berth's address \"{}\" must have a host, and no path or key", url));
  place.host = authority;
  place.authority = authority;
  bool has_port = authority.back() != ']' && authority.rfind(':') != std::string_view::npos &&
                  (authority[0] != '[' || authority.rfind(':') > authority.rfind(']'));
  if (!has_port) place.authority += place.tls ? ":443" : ":80";
  return place;
}

Result<std::string> read_join_file(const std::string& path) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return system_error("reading the join token " + path, errno);
  struct stat info {};
  char text[512];
  ssize_t n = fstat(fd, &info) == 0 ? read(fd, text, sizeof text) : -1;
  int error = errno;
  close(fd);
  if (n < 0) return system_error("reading the join token " + path, error);
  if (info.st_mode & 077)
    return invalid_argument(
        fmt::format("the join token {} can be read by others (mode {:03o}); it must be 0600", path,
                    info.st_mode & 0777));
  std::string token(text, n);
  while (!token.empty() && (token.back() == '\n' || token.back() == ' ')) token.pop_back();
  if (token.empty()) return invalid_argument("the join token " + path + " is empty");
  return token;
}

Berth::Berth(runtime::Loop& loop, runtime::BlockingPool& pool, BerthSettings settings)
    : loop_(loop),
      pool_(pool),
      settings_(std::move(settings)),
      secret_(random_base62(kSecretCharacters)),
      renew_(random_base62(kSecretCharacters)) {}

Task<Result<runtime::Address>> Berth::locate() {
  if (addresses_.empty()) {
    auto resolved = co_await runtime::resolve(pool_, settings_.place.authority);
    if (!resolved) co_return std::move(resolved).error();
    addresses_ = std::move(resolved).value();
  }
  co_return addresses_.front();
}

Task<Result<Berth::Answer>> Berth::post(std::string path, std::string authorization,
                                        std::string body, Duration limit) {
  auto located = co_await locate();
  if (!located) co_return std::move(located).error();
  Error last;
  for (size_t tries = addresses_.size(); tries > 0; --tries) {
    http::ClientRequest r;
    r.address = addresses_.front();
    r.host = settings_.place.host;
    r.method = "POST";
    r.target = path;
    r.fields =
        fmt::format("Authorization: {}\r\nContent-Type: application/json\r\n", authorization);
    r.body = body;
    r.tls = settings_.tls;
    r.connect_timeout = kConnectLimit;
    r.deadline = limit;
    r.max_body = size_t{1} << 20;
    auto answer = co_await http::fetch(loop_, std::move(r));
    if (answer) co_return Answer{answer->status, std::move(answer->body)};
    last = std::move(answer).error();
    if (last.code != Code::unavailable) co_return last;
    // Nobody there: another address of the name may do.
    std::rotate(addresses_.begin(), addresses_.begin() + 1, addresses_.end());
  }
  addresses_.clear();  // the name may have moved
  co_return last;
}

Task<std::vector<std::string>> Berth::credentials(std::string body, std::string& problems) {
  std::vector<std::string> out;
  if (!settings_.join_file.empty()) {
    auto token = read_join_file(settings_.join_file);
    if (token)
      out.push_back("Join " + *token);
    else
      problems += token.error().message + ". ";
  }
  if (settings_.use_munge) {
    auto encode = [socket = settings_.munge_socket,
                   digest = sha256_hex(body)]() -> Result<std::string> {
      auto munge = identity::Munge::open(socket);
      if (!munge) return std::move(munge).error();
      return munge->encode(digest);
    };
    auto made = co_await pool_.run(encode);
    if (made)
      out.push_back("Munge " + *made);
    else
      problems += made.error().message + ". ";
  }
  if (!settings_.key.empty()) out.push_back("Bearer " + settings_.key);
  co_return out;
}

Task<Berth::RegisterOutcome> Berth::register_replica(proto::RegisterRequest request) {
  request.secret = secret_;
  request.renew = renew_;
  std::string body = dump_json(proto::to_json(request));
  std::string problems;
  auto all = co_await credentials(body, problems);
  RegisterOutcome outcome;
  outcome.failure.why =
      "no credential: " + problems + "Set BERTH_KEY, run `berth login`, or run inside a Slurm job";
  for (const std::string& credential : all) {
    auto answer = co_await post("/berth/v1/leases", credential, body, kRegisterLimit);
    if (!answer) {
      outcome.failure = {lifecycle::RegisterFailed::Kind::unreachable, answer.error().message};
      co_return outcome;
    }
    if (answer->status == 200 || answer->status == 201) {
      auto reply = proto::parse_register_reply(answer->body);
      if (reply) {
        lease_id_ = reply->lease_id;
        outcome.reply = std::move(reply).value();
      } else {
        outcome.failure = {lifecycle::RegisterFailed::Kind::unreachable, reply.error().message};
      }
      co_return outcome;
    }
    std::string kind = credential.substr(0, credential.find(' '));
    std::string why =
        fmt::format("with {} credential: {} {}", kind, answer->status, words_of(answer->body));
    // Berth restarting, overloaded or without its scheduler is no refusal.
    bool refused = answer->status >= 400 && answer->status < 500 && answer->status != 408 &&
                   answer->status != 425 && answer->status != 429;
    outcome.failure = {refused ? lifecycle::RegisterFailed::Kind::refused
                               : lifecycle::RegisterFailed::Kind::unreachable,
                       problems + why};
    if (answer->status != 401) co_return outcome;
    problems += why + ". ";
  }
  if (all.empty()) outcome.failure.kind = lifecycle::RegisterFailed::Kind::refused;
  co_return outcome;
}

Task<Berth::HeartbeatOutcome> Berth::heartbeat(proto::HeartbeatRequest request) {
  HeartbeatOutcome outcome;
  auto answer =
      co_await post(fmt::format("/berth/v1/leases/{}/heartbeat", lease_id_), "Bearer " + renew_,
                    dump_json(proto::to_json(request)), kHeartbeatLimit);
  if (!answer) {
    outcome.why = answer.error().message;
    co_return outcome;
  }
  if (answer->status == 200) {
    auto reply = proto::parse_heartbeat_reply(answer->body);
    if (reply)
      outcome.reply = std::move(reply).value();
    else
      outcome.why = reply.error().message;
    co_return outcome;
  }
  outcome.why = fmt::format("{} {}", answer->status, words_of(answer->body));
  // Berth forgot the lease, or it is another's by now: register again.
  if (answer->status == 404 || answer->status == 401 || answer->status == 403 ||
      answer->status == 410)
    outcome.failure.kind = lifecycle::HeartbeatFailed::Kind::unknown_lease;
  co_return outcome;
}

Task<bool> Berth::end(proto::EndReport report) {
  auto answer = co_await post(fmt::format("/berth/v1/leases/{}/end", lease_id_), "Bearer " + renew_,
                              dump_json(proto::to_json(report)), kHeartbeatLimit);
  if (!answer) co_return false;
  // 4xx: no such lease any more. Asking again cannot change that.
  co_return answer->status < 500 && answer->status != 429;
}

}  // namespace berth::agent
