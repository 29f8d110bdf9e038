// A scripted API for the tests of commands, and a terminal that remembers.
//
//   Terminal t;
//   t.api.expect("GET", "/berth/v1/services").reply(200, R"({"v":1,"services":[]})");
//   EXPECT_EQ(t.run({"ps"}), exit_ok);
//
// Requests that were not expected, and expected ones that never came, are in `unexpected` and
// `left()`. Time does not pass but by sleep().
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/context.h"

namespace berth::cli {

class ApiFake final : public Api {
 public:
  struct Step {
    std::string method, path;
    ApiReply answer{200, "{}"};
    std::vector<std::string> pieces;  // of a stream
    Error error;
    bool fails = false;

    Step& reply(int status, std::string body) {
      answer = {status, std::move(body)};
      return *this;
    }
    Step& streams(std::vector<std::string> all) {
      pieces = std::move(all);
      return *this;
    }
    Step& fail(Code code, std::string message) {
      fails = true;
      error.code = code;
      error.message = std::move(message);
      return *this;
    }
  };

  Step& expect(std::string method, std::string path) {
    Step step;
    step.method = std::move(method);
    step.path = std::move(path);
    steps_.push_back(std::move(step));
    return steps_.back();
  }

  // The answer to every request for which nothing else is expected.
  Step& always() {
    always_.emplace();
    return *always_;
  }

  Result<ApiReply> call(const ApiRequest& request) override {
    Step step;
    if (!take(request, step)) return internal_error("unexpected request");
    if (step.fails) return step.error;
    return step.answer;
  }

  Result<ApiReply> stream(const ApiRequest& request,
                          const std::function<StreamStep(std::string_view)>& on_piece) override {
    Step step;
    if (!take(request, step)) return internal_error("unexpected request");
    for (const std::string& piece : step.pieces)
      if (on_piece(piece) == StreamStep::stop) {
        ++stopped;
        return step.answer;
      }
    if (step.fails) return step.error;
    return step.answer;
  }

  std::string place() const override { return "http://berth.test"; }
  size_t left() const { return steps_.size(); }

  std::vector<ApiRequest> requests;
  std::vector<std::string> unexpected;
  int stopped = 0;

 private:
  bool take(const ApiRequest& request, Step& step) {
    requests.push_back(request);
    if (steps_.empty() && always_) {
      step = *always_;
      return true;
    }
    if (steps_.empty() || steps_.front().method != request.method ||
        steps_.front().path != request.path) {
      unexpected.push_back(request.method + " " + request.path);
      return false;
    }
    step = std::move(steps_.front());
    steps_.pop_front();
    return true;
  }

  std::deque<Step> steps_;
  std::optional<Step> always_;
};

struct Terminal {
  Terminal() {
    context.environment = {{"HOME", "/home/alice"}, {"PWD", "/home/alice"}};
    context.out = [this](std::string_view text) { out += text; };
    context.err = [this](std::string_view text) { err += text; };
    context.read_file = [this](const std::string& path) -> Result<std::string> {
      auto it = files.find(path);
      if (it == files.end()) return not_found("open " + path + ": No such file or directory");
      return it->second;
    };
    context.read_line = [this](std::string_view prompt) -> std::optional<std::string> {
      out += prompt;
      if (typed.empty()) return std::nullopt;
      std::string line = std::move(typed.front());
      typed.pop_front();
      return line;
    };
    context.read_secret = context.read_line;
    context.api = [this]() -> Result<Api*> { return &api; };
    context.api_at = [this](const std::string& url, const std::string& key) -> Result<Api*> {
      asked_url = url;
      asked_key = key;
      return &api;
    };
    context.now = [this] { return now; };
    context.sleep = [this](Duration d) {
      now += d;
      slept += d;
      return interrupt_after < Duration(0) || slept < interrupt_after;
    };
  }

  int run(const std::vector<std::string>& words) {
    out.clear();
    err.clear();
    return run_command(words, context);
  }

  ApiFake api;
  Context context;
  std::string out, err;
  std::map<std::string, std::string> files;
  std::deque<std::string> typed;
  std::string asked_url, asked_key;
  Instant now = from_ms(1'800'000'000'000);
  Duration slept{0};
  Duration interrupt_after{-1};
};

}  // namespace berth::cli
