#include "http/client.h"

#include <cstring>

namespace berth::http {

using proto::BodyScanner;
using proto::HeadState;
using runtime::ReadEnd;
using runtime::ReadResult;
using runtime::Task;
using runtime::Wait;
using runtime::WriteEnd;
using runtime::WriteResult;

namespace {

bool changes_nothing(const std::string& method) { return method == "GET" || method == "HEAD"; }

std::string describe(const ClientRequest& r) {
  return r.method + " " + r.target.substr(0, r.target.find('?')) + " at " + r.address.to_string();
}

std::string compose(const ClientRequest& r) {
  std::string out = r.method + " " + r.target + " HTTP/1.1\r\nHost: ";
  out += !r.host.empty() ? r.host : r.address.is_unix() ? "localhost" : r.address.to_string();
  out += "\r\nConnection: close\r\n";
  out += r.fields;
  if (!r.body.empty() || !changes_nothing(r.method))
    out += "Content-Length: " + std::to_string(r.body.size()) + "\r\n";
  out += "\r\n";
  return out;
}

// What a certificate must name for a Host field: "name:443" is "name", "[::1]:443" is "::1".
std::string certified(const std::string& host) {
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  size_t colon = host.find(':');
  return host.find(':', colon + 1) == host.npos ? host.substr(0, colon) : host;
}

}  // namespace

std::string_view ClientResponse::field(std::string_view name) const {
  proto::MessageHead head;
  head.fields = fields;
  return head.find(name).value_or(std::string_view());
}

Error ClientExchange::lost(const ClientRequest& request, const ReadResult& got) const {
  std::string what = describe(request) + ": ";
  const bool late = got.end == ReadEnd::timed_out;
  if (late) {
    what += "no answer within " + to_human(request.deadline);
  } else if (got.end == ReadEnd::failed) {
    what += std::string("the connection broke: ") + strerror(got.error);
  } else {
    what += "the connection was closed without an answer";
  }
  if (!changes_nothing(request.method)) {
    return Error{Code::unknown_outcome, what + "; it may or may not have been done", Source::peer};
  }
  Error e = late ? timed_out(what, Source::peer) : unavailable(what, Source::peer);
  e.retry = Retry::yes;
  return e;
}

Task<Status> ClientExchange::send(const ClientRequest& request) {
  Wait wait{nullptr, &deadline_};
  if (request.tls) {
    std::string name = request.host.empty() ? request.address.host() : certified(request.host);
    Status shaken = co_await runtime::tls_connect(*stream_, request.tls, name, wait);
    if (!shaken.ok()) co_return shaken;
  }
  std::string head = compose(request);
  WriteResult w = co_await stream_->write_stable(head, request.body, wait);
  if (w || stream_->maybe_readable()) co_return Status();  // an early answer is an answer
  ReadResult as_read;
  as_read.end = w.end == WriteEnd::timed_out ? ReadEnd::timed_out : ReadEnd::failed;
  as_read.error = w.error;
  co_return lost(request, as_read);
}

Task<Status> ClientExchange::read_head(const ClientRequest& request) {
  Wait wait{nullptr, &deadline_};
  std::string bytes;
  size_t seen = 0;
  for (;;) {
    ReadResult got = co_await stream_->read(wait);
    if (!got.ok()) co_return lost(request, got);
    bytes.append(got.view.bytes());
    for (;;) {
      proto::ResponseHead head;
      auto r = proto::parse_response(bytes, seen, head);
      if (r.state == HeadState::need_more) break;
      if (r.state == HeadState::bad)
        co_return unavailable(describe(request) + ": the answer is not HTTP/1.1", Source::peer);
      if (head.status < 200) {  // interim
        bytes.erase(0, head.size);
        seen = 0;
        continue;
      }
      response_.status = head.status;
      response_.fields = std::string(head.fields);
      const bool is_head = request.method == "HEAD";
      scanner_.start_response(
          head, is_head ? BodyScanner::Answering::head : BodyScanner::Answering::other);
      std::string_view rest = std::string_view(bytes).substr(head.size);
      scanner_.feed(rest, [&](std::string_view p) { pending_.append(p); });
      co_return Status();
    }
    seen = bytes.size();
  }
}

Task<Result<std::string>> ClientExchange::next() {
  if (!pending_.empty()) {
    std::string out = std::move(pending_);
    pending_.clear();
    co_return out;
  }
  if (between_reads_.count() > 0) deadline_.set_after(between_reads_);
  Wait wait{nullptr, &deadline_};
  std::string out;
  while (!scanner_.done()) {
    if (scanner_.bad())
      co_return unavailable("the answer of " + peer_ + " is malformed", Source::peer);
    ReadResult got = co_await stream_->read(wait);
    if (got.end == ReadEnd::eof && scanner_.kind() == BodyScanner::Kind::until_close) break;
    if (got.end == ReadEnd::timed_out)
      co_return timed_out("the answer of " + peer_ + " stopped coming", Source::peer);
    if (!got.ok()) co_return unavailable("the answer of " + peer_ + " was cut off", Source::peer);
    scanner_.feed(got.view.bytes(), [&](std::string_view p) { out.append(p); });
    if (!out.empty()) break;
  }
  co_return out;
}

Task<Result<std::unique_ptr<ClientExchange>>> open_exchange(runtime::Loop& loop,
                                                            ClientRequest request) {
  std::unique_ptr<ClientExchange> x(new ClientExchange(loop));
  x->peer_ = request.address.to_string();
  x->between_reads_ = request.between_reads;
  x->deadline_.set_after(request.connect_timeout);
  Wait wait{nullptr, &x->deadline_};
  runtime::Task<Result<runtime::StreamPtr>> dialling =
      request.dialer ? request.dialer->dial(loop, wait)
                     : runtime::connect(loop, request.address, wait);
  auto connected = co_await dialling;
  if (!connected.ok()) {
    Error e = std::move(connected).error().wrap(describe(request));
    e.code = Code::unavailable;  // nothing was sent
    co_return e;
  }
  x->stream_ = std::move(connected).value();
  x->stream_->set_half_close(runtime::HalfClose::is_allowed);
  x->deadline_.set_after(request.deadline);
  Status status = co_await x->send(request);
  if (!status.ok()) co_return status.error();
  status = co_await x->read_head(request);
  if (!status.ok()) co_return status.error();
  if (request.between_reads.count() == 0) x->deadline_.clear();
  co_return x;
}

Task<Result<ClientResponse>> fetch(runtime::Loop& loop, ClientRequest request) {
  const Duration whole = request.deadline;
  const runtime::MonoTime begin = loop.now();
  const size_t max_body = request.max_body;
  std::string what = describe(request);
  auto opened = co_await open_exchange(loop, std::move(request));
  if (!opened.ok()) co_return opened.error();
  std::unique_ptr<ClientExchange> x = std::move(opened).value();
  x->limit_until(begin + whole);
  ClientResponse out = x->response();
  for (;;) {
    auto piece = co_await x->next();
    if (!piece.ok()) co_return piece.error().wrap(what);
    if (piece->empty()) break;
    if (out.body.size() + piece->size() > max_body) {
      co_return Error{Code::too_large,
                      what + ": the answer is larger than " + std::to_string(max_body) + " bytes",
                      Source::peer};
    }
    out.body.append(*piece);
  }
  co_return out;
}

}  // namespace berth::http
