#include "http/relay.h"

#include <cerrno>

#include "proto/http1_write.h"

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

// Under construction between two awaits of one relay; every relay of the thread uses them in turn.
thread_local std::string scratch_head;
thread_local std::string scratch_body;
thread_local proto::ResponseHead scratch_response;

void append_without_content_type(std::string& out, std::string_view fields) {
  while (!fields.empty()) {
    std::string_view line = fields.substr(0, fields.find('\n') + 1);
    fields.remove_prefix(line.size());
    if (!proto::equals_ignoring_case(line.substr(0, line.find(':')), "content-type"))
      out.append(line);
  }
}

constexpr size_t kMaxScratch = 256 * 1024;  // a large rewritten body must not stay for ever

}  // namespace

std::string_view to_string(RelayEnd end) {
  switch (end) {
    case RelayEnd::whole:
      return "whole";
    case RelayEnd::declined:
      return "declined";
    case RelayEnd::client_left:
      return "client_left";
    case RelayEnd::client_stalled:
      return "client_stalled";
    case RelayEnd::connect_failed:
      return "connect_failed";
    case RelayEnd::connect_timeout:
      return "connect_timeout";
    case RelayEnd::upstream_closed:
      return "upstream_closed";
    case RelayEnd::upstream_stalled:
      return "upstream_stalled";
    case RelayEnd::bad_response:
      return "bad_response";
    case RelayEnd::head_timeout:
      return "head_timeout";
    case RelayEnd::first_event_timeout:
      return "first_event_timeout";
    case RelayEnd::between_events_timeout:
      return "between_events_timeout";
    case RelayEnd::broken:
      return "broken";
  }
  return "unknown";
}

Relay::Relay(const RelayTask& task)
    : task_(task), loop_(task.client.loop()), deadline_(task.client.loop()) {}

// At most two attempts: a pooled connection, and a fresh one when the pooled one was dead.
Task<RelayResult> Relay::run() {
  for (bool fresh = false;; fresh = true) {
    UpstreamPtr upstream;
    if (!fresh) upstream = task_.pool.take(task_.address);
    if (!upstream) {
      upstream = co_await connect_fresh();
      if (!upstream) break;
    }
    const bool reused = upstream->reused();
    co_await attempt(std::move(upstream));
    const bool stale = reused && !any_byte_ && result_.end == RelayEnd::upstream_closed;
    if (!stale) break;
    result_.retried_stale = true;
    failed_ = false;
  }
  result_.ended_at = loop_.now();
  co_return std::move(result_);
}

Task<Result<runtime::StreamPtr>> Relay::dial(Wait wait) {
  Task<Result<runtime::StreamPtr>> dialling;
  if (task_.dialer) {
    dialling = task_.dialer->dial(loop_, wait);
  } else {
    auto address = runtime::Address::parse(task_.address);
    if (!address.ok()) co_return std::move(address).error();
    dialling = runtime::connect(loop_, *address, wait);
  }
  co_return co_await dialling;
}

Task<UpstreamPtr> Relay::connect_fresh() {
  deadline_.set_after(task_.timeouts.connect);
  Wait wait{&task_.client, &deadline_};
  Result<runtime::StreamPtr> connected = co_await dial(wait);
  if (connected.ok()) {
    auto stream = std::move(connected).value();
    stream->set_half_close(runtime::HalfClose::is_allowed);  // an early answer may end in a FIN
    co_return task_.pool.adopt(task_.address, std::move(stream));
  }
  const Error& e = connected.error();
  result_.end = e.code == Code::cancelled ? RelayEnd::client_left
                : e.code == Code::timeout ? RelayEnd::connect_timeout
                                          : RelayEnd::connect_failed;
  result_.message = e.message;
  co_return nullptr;
}

// One connection: request out, response through.
Task<void> Relay::attempt(UpstreamPtr upstream) {
  co_await send_request(*upstream);
  if (failed_) co_return;
  arm_read_limit();
  Wait wait{&task_.client, &deadline_};
  for (;;) {
    ReadResult got = co_await upstream->stream().read(wait);
    Out out;
    bool ended = false;
    if (got.ok()) {
      std::string_view bytes = got.view.bytes();
      any_byte_ = true;
      scratch_head.clear();
      if (!has_head_) {
        HeadStep step = take_head(bytes);
        if (step == HeadStep::need_more) continue;
        if (step == HeadStep::failed) {
          scanner_.feed(bytes, [](std::string_view) {});  // of a declined one, which may be whole
          break;
        }
      }
      feed(bytes, out);
      ended = scanner_.done();
    } else {
      ended = upstream_ended(got, out);
      if (!ended) break;
    }
    if (!out.empty()) {
      WriteResult w =
          co_await task_.client.write(out.first, out.second, {}, task_.timeouts.write_stall);
      if (!part_.empty()) std::string().swap(part_);  // where `bytes` may have pointed into
      if (!w) {
        note_write_failure(w);
        break;
      }
    }
    if (scanner_.bad()) {
      result_.end = RelayEnd::broken;
      failed_ = true;
      break;
    }
    if (ended) {
      finish(std::move(upstream));
      co_return;
    }
    arm_read_limit();
  }
  if (result_.end == RelayEnd::declined && scanner_.done()) {
    finish(std::move(upstream));
    co_return;
  }
  upstream.reset();  // closes it, before anything else is waited for
  if (result_.head_sent) co_await break_off();
}

Task<void> Relay::send_request(Upstream& upstream) {
  UpstreamRequest& r = task_.request;
  Wait wait{&task_.client, nullptr};
  WriteResult w =
      co_await upstream.stream().write_stable(r.head, r.body, wait, task_.timeouts.write_stall);
  result_.sent_at = loop_.now();
  if (w) co_return;
  // It may have answered early (413, say) and closed: the answer is read before giving up.
  if (w.end == WriteEnd::failed && upstream.stream().maybe_readable()) co_return;
  failed_ = true;
  result_.error = w.error;
  result_.end = w.end == WriteEnd::cancelled   ? RelayEnd::client_left
                : w.end == WriteEnd::timed_out ? RelayEnd::upstream_stalled
                                               : RelayEnd::upstream_closed;
}

void Relay::arm_read_limit() {
  const RelayTimeouts& t = task_.timeouts;
  deadline_.set_after(!has_head_                   ? t.head
                      : result_.payload_bytes == 0 ? t.first_event
                                                   : t.between_events);
}

RelayEnd Relay::timeout_name() const {
  if (!has_head_) return RelayEnd::head_timeout;
  return result_.payload_bytes == 0 ? RelayEnd::first_event_timeout
                                    : RelayEnd::between_events_timeout;
}

// Reads the head from the front of `bytes`, which is left at the body.
Relay::HeadStep Relay::take_head(std::string_view& bytes) {
  if (!part_.empty()) {
    part_.append(bytes);
    bytes = part_;
  }
  for (;;) {
    proto::ResponseHead& head = scratch_response;
    auto r = proto::parse_response(bytes, part_seen_, head);
    if (r.state == HeadState::need_more) {
      if (part_.empty() || bytes.data() != part_.data()) part_ = std::string(bytes);
      part_seen_ = bytes.size();
      return HeadStep::need_more;
    }
    if (r.state == HeadState::bad || head.status == 101) {
      failed_ = true;
      result_.end = RelayEnd::bad_response;
      return HeadStep::failed;
    }
    bytes.remove_prefix(head.size);
    part_seen_ = 0;
    if (head.status >= 200) return adopt_head(head);
    if (bytes.empty()) {
      part_.clear();
      return HeadStep::need_more;
    }
  }
}

Relay::HeadStep Relay::adopt_head(const proto::ResponseHead& head) {
  has_head_ = true;
  result_.status = head.status;
  result_.head_at = loop_.now();
  upstream_keeps_ = head.keep_alive;
  scanner_.start_response(head, task_.request.answering);
  event_stream_ = head.content_type.starts_with("text/event-stream");
  scratch_body.clear();
  RelayObserver::Plan plan = task_.observer.on_head(head, scratch_body);
  if (plan.what == RelayObserver::Plan::Do::decline) {
    failed_ = true;
    result_.end = RelayEnd::declined;
    return HeadStep::failed;
  }
  task_.request.release();
  const bool has_body = !scanner_.done();
  if (plan.what == RelayObserver::Plan::Do::rewrite && has_body) {
    mode_ = Mode::rewrite;
    rewriter_ = plan.rewriter;
  } else if (task_.client_http10 && scanner_.kind() == BodyScanner::Kind::chunked) {
    mode_ = Mode::unframe;
  }
  const bool framed_anew = mode_ == Mode::rewrite;
  until_close_ = has_body && (framed_anew ? task_.client_http10
                                          : mode_ == Mode::unframe ||
                                                scanner_.kind() == BodyScanner::Kind::until_close);
  compose_head(head, scratch_body, mode_ == Mode::rewrite ? plan.content_type : "");
  result_.head_sent = true;
  return HeadStep::ready;
}

void Relay::compose_head(const proto::ResponseHead& head, std::string_view extra,
                         std::string_view content_type) {
  proto::append_status_line(scratch_head, head.status, head.reason);
  if (content_type.empty()) {
    head.append_passing(scratch_head);
  } else {
    std::string passing;
    head.append_passing(passing);
    append_without_content_type(scratch_head, passing);
    scratch_head.append("Content-Type: ").append(content_type).append("\r\n");
  }
  scratch_head.append(extra);
  const bool head_answer = task_.request.answering == BodyScanner::Answering::head;
  const bool without_body = scanner_.done() && !head_answer && head.content_length < 0;
  if (mode_ == Mode::rewrite && !scanner_.done()) {
    if (!until_close_) scratch_head.append("Transfer-Encoding: chunked\r\n");
  } else if (head.content_length >= 0 && head.status != 204) {
    scratch_head.append("Content-Length: ");
    proto::append_number(scratch_head, static_cast<uint64_t>(head.content_length));
    scratch_head.append("\r\n");
  } else if (head.chunked && mode_ == Mode::verbatim && !without_body) {
    scratch_head.append("Transfer-Encoding: chunked\r\n");
  }
  if (task_.client_closes || until_close_) scratch_head.append("Connection: close\r\n");
  scratch_head.append("\r\n");
}

// What the bytes from the upstream become for the client. The head, when it is due, is already in
// scratch_head.
void Relay::feed(std::string_view bytes, Out& out) {
  if (mode_ == Mode::verbatim) {
    size_t used = scanner_.feed(bytes, [&](std::string_view p) {
      if (result_.payload_bytes == 0 && !p.empty()) result_.first_payload_at = loop_.now();
      result_.payload_bytes += p.size();
      if (event_stream_ && !p.empty()) {
        last_[0] = p.size() > 1 ? p[p.size() - 2] : last_[1];
        last_[1] = p.back();
      }
      task_.observer.on_payload(p);
    });
    extra_bytes_ = used < bytes.size();
    out.first = scratch_head;
    out.second = bytes.substr(0, used);
  } else {
    scratch_body.clear();
    size_t used = scanner_.feed(bytes, [&](std::string_view p) {
      if (result_.payload_bytes == 0 && !p.empty()) result_.first_payload_at = loop_.now();
      result_.payload_bytes += p.size();
      if (mode_ == Mode::rewrite) {
        rewriter_->feed(p, scratch_body);
      } else {
        task_.observer.on_payload(p);
        scratch_body.append(p);
      }
    });
    extra_bytes_ = used < bytes.size();
    if (scanner_.done() && mode_ == Mode::rewrite) rewriter_->finish(scratch_body);
    close_rewritten();
    out.first = scratch_head;
    out.second = scratch_body;
  }
  result_.bytes_to_client += out.first.size() + out.second.size();
}

// Frames what the rewriter gave, and the end of the response when it is there.
void Relay::close_rewritten() {
  if (until_close_ || mode_ != Mode::rewrite) return;
  if (!scratch_body.empty()) {
    last_[0] = scratch_body.size() > 1 ? scratch_body[scratch_body.size() - 2] : last_[1];
    last_[1] = scratch_body.back();
    proto::append_chunk_size(scratch_head, scratch_body.size());
    scratch_body.append("\r\n");
  }
  if (scanner_.done() && scanner_.kind() != BodyScanner::Kind::none)
    scratch_body.append("0\r\n\r\n");
}

// No more bytes. True: that is the proper end of the response.
bool Relay::upstream_ended(const ReadResult& got, Out& out) {
  failed_ = true;
  result_.error = got.error;
  switch (got.end) {
    case ReadEnd::cancelled:
      result_.end = RelayEnd::client_left;
      return false;
    case ReadEnd::timed_out:
      result_.end = timeout_name();
      return false;
    case ReadEnd::eof:
      if (has_head_ && scanner_.kind() == BodyScanner::Kind::until_close) {
        failed_ = false;
        upstream_keeps_ = false;
        if (mode_ == Mode::rewrite) {
          scratch_head.clear();
          scratch_body.clear();
          rewriter_->finish(scratch_body);
          close_rewritten();
          if (!until_close_) scratch_body.append("0\r\n\r\n");
          out.first = scratch_head;
          out.second = scratch_body;
          result_.bytes_to_client += out.first.size() + out.second.size();
        }
        return true;
      }
      break;
    default:
      break;
  }
  result_.end = any_byte_ ? RelayEnd::broken : RelayEnd::upstream_closed;
  return false;
}

void Relay::note_write_failure(const WriteResult& w) {
  failed_ = true;
  result_.error = w.error;
  result_.end = w.end == WriteEnd::timed_out ? RelayEnd::client_stalled : RelayEnd::client_left;
}

void Relay::finish(UpstreamPtr upstream) {
  if (!failed_) {
    result_.end = RelayEnd::whole;
    result_.client_open = !until_close_ && !task_.client_closes;
  }
  if (upstream_keeps_ && !extra_bytes_ && scanner_.kind() != BodyScanner::Kind::until_close)
    task_.pool.give_back(std::move(upstream), task_.idle_limit);
  if (scratch_body.capacity() > kMaxScratch) std::string().swap(scratch_body);
  if (scratch_head.capacity() > kMaxScratch) std::string().swap(scratch_head);
}

// The client has seen a part of a response that will not be completed.
Task<void> Relay::break_off() {
  if (result_.end == RelayEnd::client_left || result_.end == RelayEnd::client_stalled) {
    task_.client.abort_on_close();
    co_return;
  }
  std::string text;
  if (event_stream_) text = task_.observer.break_event(result_.end);
  std::string closing;
  bool proper = false;
  if (!text.empty()) {
    if (last_[0] != '\n' || last_[1] != '\n') text.insert(0, "\n\n");
    if (until_close_) {
      closing = text;
      proper = true;
    } else if (mode_ == Mode::rewrite) {
      proto::append_chunk_size(closing, text.size());
      closing.append(text).append("\r\n0\r\n\r\n");
      proper = true;
    } else if (auto bytes = scanner_.closing_bytes(text)) {
      closing = std::move(*bytes);
      proper = true;
    }
  }
  if (!proper) {
    task_.client.abort_on_close();
    co_return;
  }
  WriteResult w = co_await task_.client.write_stable(closing, {}, {}, task_.timeouts.write_stall);
  if (w) result_.bytes_to_client += closing.size();
}

}  // namespace berth::http
