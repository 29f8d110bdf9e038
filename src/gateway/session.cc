#include "gateway/session.h"

#include <algorithm>
#include <charconv>

#include "base/id.h"
#include "base/nearest.h"
#include "proto/model_names.h"
#include "proto/multipart.h"

namespace berth::gateway {

using http::Exchange;
using http::RelayEnd;
using http::RelayResult;
using http::Response;
using proto::ApiError;
using proto::make_api_error;
using runtime::Task;

namespace {

// A replica's load counts this request while it lives.
class Place {
 public:
  explicit Place(route::ReplicaLoad& load) : load_(load) {
    load_.outstanding.fetch_add(1, std::memory_order_relaxed);
  }
  ~Place() { load_.outstanding.fetch_sub(1, std::memory_order_relaxed); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  route::ReplicaLoad& load_;
};

bool is_event_stream(std::string_view type) { return type.starts_with("text/event-stream"); }
bool is_json(std::string_view type) { return type.starts_with("application/json"); }

bool origin_allowed(const std::vector<std::string>& origins, std::string_view origin) {
  return std::any_of(origins.begin(), origins.end(),
                     [&](const std::string& o) { return o == "*" || o == origin; });
}

std::string_view credential(const proto::RequestHead& head) {
  constexpr std::string_view kBearer = "bearer ";
  std::string_view a = head.authorization;
  if (a.size() > kBearer.size() &&
      proto::equals_ignoring_case(a.substr(0, kBearer.size()), kBearer))
    return a.substr(kBearer.size());
  return a.empty() ? head.api_key : std::string_view();
}

int64_t microseconds_between(runtime::MonoTime a, runtime::MonoTime b) {
  return std::chrono::duration_cast<std::chrono::microseconds>(b - a).count();
}

}  // namespace

Session::Session(Shard& shard, Exchange& exchange)
    : shard_(shard),
      exchange_(exchange),
      view_(shard.view_),
      id_(shard.next_request_id()),
      request_(method_, target_, id()) {
  const proto::RequestHead& head = exchange_.head();
  method_ = head.method;
  target_ = head.target;
  match_ = match_path(std::string_view(target_).substr(0, target_.find('?')));
  const auto& origins = view_->settings.cors_origins;
  if (!origins.empty() && !head.origin.empty() && origin_allowed(origins, head.origin)) {
    cors_.append("Access-Control-Allow-Origin: ").append(head.origin);
    cors_.append(
        "\r\nAccess-Control-Expose-Headers: x-request-id, retry-after\r\nVary: Origin\r\n");
  }
  shard_.counters_.in_flight.add();
}

Session::~Session() {
  shard_.counters_.in_flight.subtract();
  if (streams_reply_) shard_.counters_.streams.subtract();
}

// Not a coroutine: the frame of whatever answers is the only one that lives.
Task<void> Session::answer() {
  if (method_ == "OPTIONS" && match_.kind != PathKind::unknown) return preflight();
  if (match_.kind == PathKind::unknown) {
    std::string message = "no route " + method_ + " " + target_.substr(0, target_.find('?')) +
                          "; see GET /v1/models and the documentation for what is served";
    return refuse(make_api_error(404, "route_not_found", message));
  }
  std::string_view allowed = allowed_method(match_.kind);
  if (!allowed.empty() && allowed != method_) {
    std::string message = method_ + " is not possible here; use " + std::string(allowed);
    return refuse(make_api_error(405, "method_not_allowed", message));
  }
  if (match_.kind == PathKind::control) return serve_control();
  if (auto refusal = authenticate()) return refuse(std::move(*refusal));
  return match_.kind == PathKind::inference ? admit() : serve_models();
}

// B35: no key is needed, no upstream is asked; a foreign origin gets no permission.
Task<void> Session::preflight() {
  Response r;
  r.status = 204;
  r.content_type = "";
  if (!cors_.empty()) {
    r.fields =
        "Access-Control-Allow-Methods: GET, POST, OPTIONS\r\n"
        "Access-Control-Allow-Headers: authorization, content-type, x-api-key, x-request-id, "
        "openai-organization, openai-project, openai-beta, anthropic-version, "
        "x-stainless-arch, x-stainless-lang, x-stainless-os, x-stainless-package-version, "
        "x-stainless-retry-count, x-stainless-runtime, x-stainless-runtime-version, "
        "x-stainless-timeout, x-stainless-helper-method\r\n"
        "Access-Control-Max-Age: 600\r\n";
  }
  co_await respond(std::move(r));
}

Session::Refusal Session::authenticate() {
  std::string_view key = credential(exchange_.head());
  if (!key.empty() && view_->keys) {
    const std::string* known = shard_.key_digests_.find(key);
    const std::string digest = known ? *known : sha256_hex(key);
    key_ = view_->keys->find(digest, shard_.clock_());
    if (key_ && !known) shard_.key_digests_.remember(key, digest);
  }
  if (key_) return std::nullopt;
  // The same text for a missing, unknown, expired and revoked key.
  return make_api_error(401, "invalid_api_key",
                        "no valid API key was given; send one as `Authorization: Bearer KEY` "
                        "(`berth key create NAME` makes one)");
}

Task<void> Session::serve_models() {
  auto entry = [](const route::Route& r) {
    proto::ModelEntry e;
    e.id = r.public_name;
    e.created_s = to_ms(r.created_at) / 1000;
    e.owned_by = r.owner;
    e.state = to_string(r.status);
    if (r.context_length) e.context_length = static_cast<uint64_t>(*r.context_length);
    if (r.targets.empty()) e.note = r.status_text;
    return e;
  };
  Response answer;
  if (match_.kind == PathKind::model_list) {
    std::vector<proto::ModelEntry> entries;
    if (view_->routes) {
      for (const route::Route* r : view_->routes->visible(key_->caller))
        entries.push_back(entry(*r));
    }
    answer.body = proto::model_list_body(entries);
  } else {
    auto wanted = proto::model_id_from_path(match_.rest);
    if (wanted) model_ = *wanted;
    if (auto refusal = find_route()) {
      co_await refuse(std::move(*refusal));
      co_return;
    }
    answer.body = proto::model_body(entry(*route_));
  }
  co_await respond(std::move(answer));
}

Task<void> Session::serve_control() {
  if (!shard_.control_) {
    co_await refuse(make_api_error(404, "route_not_found", "this gateway serves no control API"));
    co_return;
  }
  ControlRequest r;
  r.method = method_;
  size_t query = target_.find('?');
  r.path = target_.substr(0, query);
  if (query != target_.npos) r.query = target_.substr(query + 1);
  r.authorization = std::string(exchange_.head().authorization);
  Status received = co_await exchange_.receive_body(view_->settings.api_body_limit);
  if (!received.ok()) {
    co_await refuse(proto::to_api_error(received.error()));
    co_return;
  }
  r.body = exchange_.take_body();
  ControlReply reply = co_await shard_.control_(std::move(r));
  Response answer;
  answer.status = reply.status;
  answer.body = std::move(reply.body);
  answer.content_type = std::move(reply.content_type);
  routine_ = reply.routine;
  if (answer.status == 503 || answer.status == 429) answer.fields = "Retry-After: 1\r\n";
  co_await respond(std::move(answer));
}

Task<void> Session::admit() {
  const ShardSettings& settings = view_->settings;
  const std::string_view coding = exchange_.head().content_encoding;
  if (!coding.empty() && !proto::equals_ignoring_case(coding, "identity")) {  // B15
    co_await refuse(make_api_error(415, "unsupported_content_encoding",
                                   "compressed request bodies are not accepted; send it plain"));
    co_return;
  }
  uint64_t limit = match_.route->is_audio ? settings.audio_body_limit : settings.body_limit;
  if (!exchange_.body_is_here() || exchange_.body().size() > limit) {
    Status received = co_await exchange_.receive_body(limit);
    if (!received.ok()) {
      co_await refuse(proto::to_api_error(received.error()));
      co_return;
    }
  }
  Refusal refusal = read_request();
  if (refusal) {
    co_await refuse(std::move(*refusal));
    co_return;
  }
  admitted_ = true;
}

// Head and body are read, the model is found, and the request to the first replica is built, all
// before the next co_await: what stands in the shared buffer lives no longer.
Session::Refusal Session::read_request() {
  std::string_view body = exchange_.body();
  body_size_ = body.size();
  const std::string_view type = exchange_.head().content_type;
  const bool is_form = match_.route->form == BodyForm::json_or_form && proto::is_multipart(type);
  proto::SpliceList splices;
  if (is_form) {
    auto peek = proto::peek_multipart(type, body);
    if (!peek.ok()) return proto::to_api_error(peek.error());
    model_ = peek->model;
    stream_ = peek->stream;
    if (auto refusal = find_route()) return refusal;
    replica_ = route::pick(*route_, shard_.ticket_++, {});
    if (!replica_) return busy_error();
    if (replica_->served_model != model_)
      splices = proto::plan_multipart_edits(*peek, replica_->served_model);
  } else {
    auto peek = proto::peek_request(body);
    if (!peek.ok()) return proto::to_api_error(peek.error());
    model_ = std::move(peek->model);
    stream_ = peek->stream;
    if (auto refusal = find_route()) return refusal;
    replica_ = route::pick(*route_, shard_.ticket_++, {});
    if (!replica_) return busy_error();
    proto::RequestEdits edits;
    if (replica_->served_model != model_) edits.model = replica_->served_model;
    if (stream_ && match_.route->takes_stream_options && !peek->wants_usage()) {  // B05
      const bool knows_continuous =
          replica_->engine == EngineKind::vllm || replica_->engine == EngineKind::sglang;
      edits.usage = knows_continuous ? proto::UsageInjection::include_and_continuous
                                     : proto::UsageInjection::include;
      usage_injected_ = true;
    }
    splices = proto::plan_request_edits(*peek, edits);
  }
  const proto::RequestHead& head = exchange_.head();
  if (!splices.empty()) {
    request_.build_edited(*replica_, head, body, splices);
  } else if (body.size() > ReplicaRequest::kInOne) {
    request_.build(*replica_, head, exchange_.take_body());
  } else {
    request_.build_small(*replica_, head, body);
  }
  exchange_.release_request();
  return std::nullopt;
}

Session::Refusal Session::find_route() {
  if (view_->routes) route_ = view_->routes->find(model_, key_->caller);
  if (!route_) {
    std::vector<std::string> names;
    if (view_->routes) {
      for (const route::Route* r : view_->routes->visible(key_->caller))
        names.push_back(r->public_name);
    }
    auto near = nearest(model_, names, 3);
    ApiError e = make_api_error(404, "model_not_found", proto::unknown_model_message(model_, near));
    e.param = "model";
    return e;
  }
  if (route_->targets.empty() && match_.kind == PathKind::inference) {
    retry_after_s_ = static_cast<int>(route_->retry_after.count() / 1000);
    std::string message = "the model `" + route_->public_name + "` cannot be called now: " +
                          (route_->status_text.empty() ? std::string(to_string(route_->status))
                                                       : route_->status_text);
    return make_api_error(503, "model_not_ready", message);
  }
  return std::nullopt;
}

// ---- replicas -------------------------------------------------------------------------------

Task<void> Session::refuse_failed() {
  ApiError error = std::move(*failure_);
  failure_.reset();
  return refuse(std::move(error));
}

Task<void> Session::relay_to_replicas() {
  std::vector<std::string> tried;
  for (;;) {
    attempts_++;
    const route::Target& target = *replica_;
    RelayResult result;
    {
      Place place(*target.load);
      http::RelayTask task{exchange_.client(),  exchange_.is_http10(),    exchange_.closes(),
                           shard_.pool_,        target.address,           target.idle_limit,
                           request_.upstream(), view_->settings.timeouts, *this};
      http::Relay relay(task);
      result = co_await relay.run();
    }
    note_result(target, result);
    if (result.head_sent) {
      exchange_.relayed(result.client_open ? Exchange::After::keep_open : Exchange::After::close);
      co_return;
    }
    if (result.end == RelayEnd::client_left) {
      exchange_.relayed(Exchange::After::close);
      co_return;
    }
    tried.push_back(target.lease_id);
    const bool more = try_another(result) && attempts_ < view_->settings.max_replicas_tried;
    replica_ = more ? route::pick(*route_, shard_.ticket_++, tried) : nullptr;
    if (!replica_) {
      failure_ = std::make_unique<ApiError>(upstream_error(result));
      co_return;
    }
    shard_.counters_.other_replica.add();
    request_.rebuild(*replica_);
  }
}

bool Session::try_another(const RelayResult& result) const {
  switch (result.end) {
    case RelayEnd::declined:
    case RelayEnd::connect_failed:
    case RelayEnd::connect_timeout:
    case RelayEnd::upstream_closed:
      return true;
    default:
      return false;
  }
}

void Session::note_result(const route::Target& target, const RelayResult& r) {
  Counters& c = shard_.counters_;
  c.by_end[static_cast<size_t>(r.end)].add();
  if (r.retried_stale) c.stale_retries.add();
  if (r.head_sent) status_ = r.status;
  bytes_out_ += r.bytes_to_client;
  first_payload_at_ = r.first_payload_at;
  end_ = to_string(r.end);
  replica_id_ = target.lease_id;
  auto& failures = target.load->consecutive_failures;
  switch (r.end) {
    case RelayEnd::whole:
      if (failures.load(std::memory_order_relaxed)) failures.store(0, std::memory_order_relaxed);
      break;
    case RelayEnd::connect_failed:
    case RelayEnd::connect_timeout:
    case RelayEnd::upstream_closed:
    case RelayEnd::upstream_stalled:
    case RelayEnd::bad_response:
    case RelayEnd::broken:
      failures.fetch_add(1, std::memory_order_relaxed);
      break;
    default:
      break;  // the client's doing, or "full", which is no failure
  }
  if (!counts_usage_) return;
  const bool whole = r.end == RelayEnd::whole;
  auto source =
      usage_.source(whole ? proto::UsageScan::Ending::complete : proto::UsageScan::Ending::cut);
  c.usage_by_source[static_cast<size_t>(source)].add();
  proto::Usage u = usage_.usage();
  c.prompt_tokens.add(u.prompt_tokens);
  c.completion_tokens.add(u.completion_tokens);
}

ApiError Session::busy_error() const {
  return make_api_error(503, "model_busy",
                        "every replica of `" + route_->public_name +
                            "` is full or unreachable at the moment; try again shortly");
}

ApiError Session::upstream_error(const RelayResult& r) const {
  const http::RelayTimeouts& t = view_->settings.timeouts;
  auto late = [&](std::string_view code, std::string_view what, Duration limit) {
    return make_api_error(
        504, code, std::string(what) + " within " + std::to_string(limit.count() / 1000) + " s");
  };
  switch (r.end) {
    case RelayEnd::declined:
      if (r.status == 502 || r.status == 504)
        return make_api_error(502, "upstream_unavailable", "the replica's engine did not answer");
      return busy_error();
    case RelayEnd::connect_failed:
      return make_api_error(502, "upstream_unavailable", "the replica could not be reached");
    case RelayEnd::connect_timeout:
      return late("connect_timeout", "the replica did not accept a connection", t.connect);
    case RelayEnd::upstream_closed:
      return make_api_error(502, "upstream_disconnected",
                            "the replica closed the connection before it answered");
    case RelayEnd::upstream_stalled:
      return late("upstream_timeout", "the replica did not take the request", t.write_stall);
    case RelayEnd::head_timeout:
    case RelayEnd::first_event_timeout:
      return late("first_token_timeout", "the model did not begin to answer",
                  r.end == RelayEnd::head_timeout ? t.head : t.first_event);
    case RelayEnd::between_events_timeout:
      return late("stream_timeout", "the model sent nothing further", t.between_events);
    case RelayEnd::bad_response:
      return make_api_error(502, "bad_upstream_response", "the replica's answer was not HTTP/1.1");
    default:
      return make_api_error(502, "upstream_disconnected",
                            "the replica closed the connection before the answer was complete");
  }
}

// ---- RelayObserver --------------------------------------------------------------------------

http::RelayObserver::Plan Session::on_head(const proto::ResponseHead& head, std::string& fields) {
  Plan plan;
  const int s = head.status;
  if (s == 429 || s == 502 || s == 503 || s == 504) {
    std::string_view after = head.retry_after;
    retry_after_s_ = 0;
    std::from_chars(after.data(), after.data() + after.size(), retry_after_s_);
    plan.what = Plan::Do::decline;
    return plan;
  }
  append_common_fields(fields);
  if (s >= 400) {
    rewriter_ = std::make_unique<ErrorRewriter>(s);
    plan.content_type = "application/json";
  } else if (is_event_stream(head.content_type)) {
    counts_usage_ = true;
    streams_reply_ = true;
    shard_.counters_.streams.add();
    proto::StreamEdits edits;
    if (usage_injected_) edits.usage = proto::UsageStrip::all;
    if (replica_->served_model != model_) edits.model = model_;
    if (!edits.none()) rewriter_ = std::make_unique<StreamRewriter>(edits, usage_);
  } else if (is_json(head.content_type)) {
    counts_usage_ = true;
    if (replica_->served_model != model_)
      rewriter_ = std::make_unique<JsonRewriter>(model_, usage_);
  }
  if (rewriter_) {
    plan.what = Plan::Do::rewrite;
    plan.rewriter = rewriter_.get();
  }
  return plan;
}

void Session::on_payload(std::string_view payload) {
  if (counts_usage_) usage_.feed(payload);
}

// B07, B17
std::string Session::break_event(RelayEnd why) {
  RelayResult r;
  r.end = why;
  return proto::error_event(upstream_error(r));
}

// ---- answers of the gateway itself ----------------------------------------------------------

void Session::append_common_fields(std::string& fields) const {
  fields.append("X-Request-Id: ").append(id()).append("\r\n").append(cors_);
}

Task<void> Session::refuse(ApiError error) {
  error_code_ = error.code;
  Response r;
  r.status = error.status;
  if (error.status == 405)
    r.fields.append("Allow: ").append(allowed_method(match_.kind)).append("\r\n");
  if (error.status == 401) r.fields.append("WWW-Authenticate: Bearer\r\n");
  if (error.status == 503 || error.status == 429) {
    r.fields.append("Retry-After: ").append(std::to_string(std::clamp(retry_after_s_, 1, 3600)));
    r.fields.append("\r\n");
  }
  r.body = proto::error_body(error);
  co_await respond(std::move(r));
}

Task<void> Session::respond(Response response) {
  if (exchange_.client().peer_gone()) {
    exchange_.relayed(Exchange::After::close);
    co_return;
  }
  status_ = response.status;
  bytes_out_ += response.body.size();
  append_common_fields(response.fields);
  co_await exchange_.respond(std::move(response));
}

void Session::account() {
  Counters& c = shard_.counters_;
  const runtime::MonoTime now = exchange_.loop().now(), begun = exchange_.started();
  const int64_t total = microseconds_between(begun, now);
  const bool has_first = first_payload_at_ != runtime::MonoTime{};
  const int64_t first = has_first ? microseconds_between(begun, first_payload_at_) : -1;
  c.by_class[status_ >= 100 && status_ < 600 ? static_cast<size_t>(status_ / 100) : 0].add();
  c.bytes_in.add(body_size_);
  c.bytes_out.add(bytes_out_);
  c.total.observe(total);
  if (has_first) c.first_payload.observe(first);
  if (!shard_.log_ || routine_) return;
  AccessRecord r;
  r.at = shard_.clock_();
  r.id = id();
  r.method = method_;
  r.path = std::string_view(target_).substr(0, target_.find('?'));
  r.status = status_ ? status_ : 499;
  r.end = end_;
  r.model = route_ ? std::string_view(route_->public_name) : std::string_view();
  if (key_) {
    r.key_id = key_->caller.key_id;
    r.user = key_->caller.user;
    r.project = key_->caller.project;
  }
  r.replica = replica_id_;
  r.attempts = attempts_;
  r.stream = stream_;
  r.bytes_in = body_size_;
  r.bytes_out = bytes_out_;
  const bool whole = end_ == to_string(RelayEnd::whole);
  auto source = !counts_usage_ ? proto::UsageSource::none
                               : usage_.source(whole ? proto::UsageScan::Ending::complete
                                                     : proto::UsageScan::Ending::cut);
  proto::Usage u = usage_.usage();
  r.prompt_tokens = u.prompt_tokens;
  r.completion_tokens = u.completion_tokens;
  r.usage_source = to_string(source);
  r.first_us = first;
  r.total_us = total;
  r.error = error_code_;
  append_access_line(shard_.log_lines_, r);
  if (shard_.log_lines_.size() > 64 * 1024) shard_.flush_log();
}

}  // namespace berth::gateway
