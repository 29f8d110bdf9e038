#include "cli/http_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "runtime/resolve.h"
#include "runtime/timer.h"

namespace berth::cli {
namespace {

constexpr Duration kLookForInterrupt = milliseconds(50);
constexpr size_t kLargestBody = size_t{64} << 20;

// Whether somebody would have to find out if it was done. A stream of tokens changes nothing.
bool may_need_looking_up(const ApiRequest& request) {
  return request.method != "GET" && request.method != "HEAD" && !request.path.starts_with("/v1/");
}

Error interrupted_error(const ApiRequest& request) {
  Error error;
  error.code = may_need_looking_up(request) ? Code::unknown_outcome : Code::cancelled;
  error.message = "interrupted";
  error.source = Source::caller;
  return error;
}

runtime::Task<void> stop_when(runtime::Loop& loop, std::function<bool()> interrupted) {
  while (!interrupted()) co_await runtime::sleep_for(loop, kLookForInterrupt);
  loop.stop();
}

// What an exchange came to, as its coroutine leaves it.
struct Exchanged {
  ApiReply reply;
  std::optional<Error> error;
  bool sent = false;  // at least in part
  bool ended = false;
};

enum class Pieces { gathered, handed_on };

// One exchange. With `handed_on` the body of a 200 goes to on_piece.
runtime::Task<void> exchange(runtime::Loop& loop, http::ClientRequest request, Pieces pieces,
                             const std::function<StreamStep(std::string_view)>& on_piece,
                             Exchanged& out) {
  Duration limit = request.deadline;
  if (pieces == Pieces::gathered) request.between_reads = Duration(0);  // the whole has a limit
  auto opened = co_await http::open_exchange(loop, std::move(request));
  if (!opened) {
    out.error = opened.error();
    out.sent = opened.error().code != Code::unavailable;
  } else {
    out.sent = true;
    out.reply.status = (*opened)->status();
    if (pieces == Pieces::gathered) (*opened)->limit_until(loop.now() + limit);
    for (;;) {
      auto piece = co_await (*opened)->next();
      if (!piece) out.error = piece.error();
      if (!piece || piece->empty()) break;
      if (pieces == Pieces::gathered || out.reply.status != 200) {
        size_t room = kLargestBody - std::min(kLargestBody, out.reply.body.size());
        out.reply.body += piece->substr(0, room);
      } else if (on_piece(*piece) == StreamStep::stop) {
        break;
      }
    }
  }
  out.ended = true;
  loop.stop();
}

}  // namespace

Result<std::unique_ptr<HttpApi>> HttpApi::make(Target target, const std::string& authorities_file,
                                               std::function<bool()> interrupted) {
  bool printable = std::all_of(target.key.begin(), target.key.end(),
                               [](char c) { return c > 0x20 && c < 0x7F; });
  if (!printable) return invalid_argument("BERTH_KEY holds characters that no key has");
  bool tls = target.scheme == Target::Scheme::https;
  std::unique_ptr<HttpApi> api(new HttpApi(std::move(target), std::move(interrupted)));
  if (tls) {
    auto context = runtime::TlsContext::client(authorities_file);
    if (!context) return std::move(context).error();
    api->tls_ = std::move(context).value();
  }
  return api;
}

Result<std::vector<runtime::Address>> HttpApi::addresses() const {
  bool v6 = target_.host.find(':') != std::string::npos;
  std::string text =
      target_.scheme == Target::Scheme::unix_socket
          ? "unix:" + target_.path
          : fmt::format("{}:{}", v6 ? "[" + target_.host + "]" : target_.host, target_.port);
  auto found = runtime::resolve_now(text);
  if (found) return found;
  Error error = std::move(found).error().wrap("cannot reach Berth at " + target_.url);
  error.code = Code::unavailable;
  return error;
}

http::ClientRequest HttpApi::client_request(const ApiRequest& request,
                                            const runtime::Address& address) const {
  http::ClientRequest out;
  out.address = address;
  out.method = request.method;
  out.target = request.path;
  out.host = target_.host;
  out.body = request.body;
  out.tls = tls_;
  out.deadline = request.timeout;
  out.between_reads = request.timeout;
  out.fields = "User-Agent: berth/" BERTH_VERSION "\r\nAccept: application/json\r\n";
  if (!target_.key.empty()) out.fields += "Authorization: Bearer " + target_.key + "\r\n";
  if (!request.body.empty()) out.fields += "Content-Type: application/json\r\n";
  return out;
}

Result<ApiReply> HttpApi::call(const ApiRequest& request) { return run(request, nullptr); }

Result<ApiReply> HttpApi::stream(const ApiRequest& request,
                                 const std::function<StreamStep(std::string_view)>& on_piece) {
  return run(request, &on_piece);
}

Result<ApiReply> HttpApi::run(const ApiRequest& request,
                              const std::function<StreamStep(std::string_view)>* on_piece) {
  auto all = addresses();
  if (!all) return std::move(all).error();
  static const std::function<StreamStep(std::string_view)> nobody;
  Pieces pieces = on_piece ? Pieces::handed_on : Pieces::gathered;
  Exchanged out;
  for (const runtime::Address& address : *all) {
    out = {};
    runtime::Loop loop;
    loop.spawn(exchange(loop, client_request(request, address), pieces,
                        on_piece ? *on_piece : nobody, out));
    loop.spawn(stop_when(loop, interrupted_));
    if (!out.ended) loop.run();
    if (!out.ended) return interrupted_error(request);
    if (out.sent) break;
  }
  if (!out.error) return std::move(out.reply);
  // An answer that was cut does not say what was done.
  if (out.sent && may_need_looking_up(request)) out.error->code = Code::unknown_outcome;
  return std::move(*out.error).wrap("Berth at " + target_.url);
}

}  // namespace berth::cli
