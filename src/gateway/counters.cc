#include "gateway/counters.h"

#include <bit>
#include <functional>

namespace berth::gateway {

namespace {

using Get = std::function<uint64_t(const Counters&)>;

uint64_t sum(std::span<const Counters* const> shards, const Get& get) {
  uint64_t total = 0;
  for (const Counters* c : shards) total += get(*c);
  return total;
}

void begin(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
  out.append("# HELP ").append(name).append(" ").append(help).append("\n");
  out.append("# TYPE ").append(name).append(" ").append(type).append("\n");
}

void line(std::string& out, std::string_view name, std::string_view labels, uint64_t value) {
  out.append(name);
  if (!labels.empty()) out.append("{").append(labels).append("}");
  out.append(" ").append(std::to_string(value)).append("\n");
}

std::string seconds_text(uint64_t us) {
  std::string text = std::to_string(us % 1'000'000);
  return std::to_string(us / 1'000'000) + "." + std::string(6 - text.size(), '0') + text;
}

void histogram(std::string& out, std::span<const Counters* const> shards, std::string_view name,
               std::string_view help, const Histogram Counters::*which) {
  begin(out, name, "histogram", help);
  uint64_t running = 0;
  std::string bucket = std::string(name) + "_bucket";
  for (size_t i = 0; i <= Histogram::kBuckets; i++) {
    running += sum(shards, [&](const Counters& c) { return (c.*which).buckets[i].get(); });
    std::string le = i < Histogram::kBuckets ? seconds_text(uint64_t{1000} << i) : "+Inf";
    line(out, bucket, "le=\"" + le + "\"", running);
  }
  uint64_t us = sum(shards, [&](const Counters& c) { return (c.*which).sum_us.get(); });
  out.append(name).append("_sum ").append(seconds_text(us)).append("\n");
  line(out, std::string(name) + "_count", "", running);
}

}  // namespace

void Histogram::observe(int64_t us) {
  if (us < 0) us = 0;
  auto ms = static_cast<uint64_t>((us + 999) / 1000);
  size_t bucket = ms <= 1 ? 0 : static_cast<size_t>(64 - std::countl_zero(ms - 1));
  buckets[bucket > kBuckets ? kBuckets : bucket].add();
  sum_us.add(static_cast<uint64_t>(us));
}

std::string metrics_text(const std::vector<const Counters*>& shards) {
  std::string out;
  auto simple = [&](std::string_view name, std::string_view type, std::string_view help,
                    const Count Counters::*which) {
    begin(out, name, type, help);
    line(out, name, "", sum(shards, [&](const Counters& c) { return (c.*which).get(); }));
  };
  begin(out, "berth_gateway_responses_total", "counter",
        "Answers by class of status; left: the client went away without one.");
  constexpr std::array<std::string_view, 6> kClasses = {"left", "1xx", "2xx", "3xx", "4xx", "5xx"};
  for (size_t i = 0; i < kClasses.size(); i++) {
    line(out, "berth_gateway_responses_total", "class=\"" + std::string(kClasses[i]) + "\"",
         sum(shards, [&](const Counters& c) { return c.by_class[i].get(); }));
  }
  begin(out, "berth_gateway_exchanges_total", "counter", "Exchanges with replicas by their end.");
  for (size_t i = 0; i < Counters::kEnds; i++) {
    std::string end(to_string(static_cast<http::RelayEnd>(i)));
    line(out, "berth_gateway_exchanges_total", "end=\"" + end + "\"",
         sum(shards, [&](const Counters& c) { return c.by_end[i].get(); }));
  }
  simple("berth_gateway_in_flight", "gauge", "Requests being served.", &Counters::in_flight);
  simple("berth_gateway_streams", "gauge", "Event streams being relayed.", &Counters::streams);
  simple("berth_gateway_stale_retries_total", "counter",
         "Requests repeated because a kept connection was dead.", &Counters::stale_retries);
  simple("berth_gateway_other_replica_total", "counter",
         "Requests that went on to another replica.", &Counters::other_replica);
  simple("berth_gateway_received_bytes_total", "counter", "Bytes of request bodies.",
         &Counters::bytes_in);
  simple("berth_gateway_sent_bytes_total", "counter", "Bytes of relayed answers.",
         &Counters::bytes_out);
  simple("berth_gateway_prompt_tokens_total", "counter", "Tokens of prompts, as engines said.",
         &Counters::prompt_tokens);
  simple("berth_gateway_completion_tokens_total", "counter",
         "Tokens of completions, as engines said.", &Counters::completion_tokens);
  begin(out, "berth_gateway_usage_total", "counter",
        "Exchanges by where their token count is from.");
  for (size_t i = 0; i < 3; i++) {
    std::string source(proto::to_string(static_cast<proto::UsageSource>(i)));
    line(out, "berth_gateway_usage_total", "source=\"" + source + "\"",
         sum(shards, [&](const Counters& c) { return c.usage_by_source[i].get(); }));
  }
  histogram(out, shards, "berth_gateway_first_payload_seconds",
            "From the request's head to the first payload of the answer.",
            &Counters::first_payload);
  histogram(out, shards, "berth_gateway_request_seconds",
            "From the request's head to the end of the answer.", &Counters::total);
  return out;
}

}  // namespace berth::gateway
