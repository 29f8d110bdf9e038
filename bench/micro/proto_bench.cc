// Micro benchmarks of the scanners on the request path, with simdjson on the same work beside
// them. Run: ninja -C build/release bench_micro && build/release/bench/bench_micro
#include <benchmark/benchmark.h>
#include <simdjson.h>

#include <string>

#include "proto/openai.h"
#include "proto/sse_edit.h"
#include "proto/usage.h"

namespace berth::proto {
namespace {

std::string chat_body(size_t size, std::string_view sentence) {
  std::string body =
      R"({"model":"m1","messages":[{"role":"system","content":"You are a helpful assistant."},)"
      R"({"role":"user","content":")";
  while (body.size() + 200 < size) body += sentence;
  return body + R"("}],"max_tokens":100,"temperature":0.7,"stream":true,)"
                R"("stream_options":{"include_usage":true}})";
}

constexpr std::string_view kEscaped = R"(Explain the \"two\" phases, please. )";
constexpr std::string_view kPlain = "Explain the two phases of it to me, please. ";
constexpr std::string_view kChinese = "请用简单的话解释一下这两个阶段。";

const std::string kEvent =
    R"(data: {"id":"chatcmpl-8f3a0c1b2d4e4f5a9b7c6d5e4f3a2b1c","object":"chat.completion.chunk",)"
    R"("created":1730000000,"model":"m1","choices":[{"index":0,"delta":{"content":" token"},)"
    R"("logprobs":null,"finish_reason":null}]})"
    "\n\n";

void peek(benchmark::State& state, std::string_view sentence) {
  const std::string body = chat_body(static_cast<size_t>(state.range(0)), sentence);
  for (auto _ : state) benchmark::DoNotOptimize(peek_request(body));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * body.size()));
}

// The same members by simdjson on-demand, which checks the grammar of what it reads only.
void simdjson_peek(benchmark::State& state, std::string_view sentence) {
  const std::string text = chat_body(static_cast<size_t>(state.range(0)), sentence);
  const simdjson::padded_string body(text);
  simdjson::ondemand::parser parser;
  for (auto _ : state) {
    simdjson::ondemand::document document;
    simdjson::ondemand::object object;
    std::string_view model;
    bool stream = false, usage = false;
    if (parser.iterate(body).get(document) || document.get_object().get(object)) std::abort();
    for (auto field : object) {
      simdjson::ondemand::raw_json_string key;
      if (field.key().get(key)) std::abort();
      if (key == "model") {
        if (field.value().get_string().get(model)) std::abort();
      } else if (key == "stream") {
        if (field.value().get_bool().get(stream)) std::abort();
      } else if (key == "stream_options") {
        simdjson::ondemand::object options;
        if (field.value().get_object().get(options)) std::abort();
        if (options["include_usage"].get_bool().get(usage)) std::abort();
      }
    }
    benchmark::DoNotOptimize(model);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
}

void sse_scan(benchmark::State& state) {
  SseScan scan;
  for (auto _ : state) benchmark::DoNotOptimize(scan.feed(kEvent));
}

void usage_scan(benchmark::State& state) {
  UsageScan scan;
  for (auto _ : state) {
    scan.feed(kEvent);
    benchmark::DoNotOptimize(scan);
  }
}

void sse_edit(benchmark::State& state, StreamEdits edits) {
  SseEdit editor(edits);
  std::string out;
  for (auto _ : state) {
    out.clear();
    editor.feed(kEvent, out);
    benchmark::DoNotOptimize(out);
  }
}

BENCHMARK_CAPTURE(peek, escaped, kEscaped)->Arg(1500)->Arg(8000)->Arg(100000);
BENCHMARK_CAPTURE(simdjson_peek, escaped, kEscaped)->Arg(1500)->Arg(8000)->Arg(100000);
BENCHMARK_CAPTURE(peek, plain, kPlain)->Arg(1500)->Arg(100000);
BENCHMARK_CAPTURE(simdjson_peek, plain, kPlain)->Arg(1500)->Arg(100000);
BENCHMARK_CAPTURE(peek, chinese, kChinese)->Arg(1500)->Arg(100000);
BENCHMARK_CAPTURE(simdjson_peek, chinese, kChinese)->Arg(1500)->Arg(100000);
BENCHMARK(sse_scan);
BENCHMARK(usage_scan);
BENCHMARK_CAPTURE(sse_edit, strip, StreamEdits{UsageStrip::all, ""});
BENCHMARK_CAPTURE(sse_edit, rename, StreamEdits{UsageStrip::none, "my-service-name"});
BENCHMARK_CAPTURE(sse_edit, both, StreamEdits{UsageStrip::all, "my-service-name"});

}  // namespace
}  // namespace berth::proto

BENCHMARK_MAIN();
