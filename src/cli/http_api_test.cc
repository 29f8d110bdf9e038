#include "cli/http_api.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace berth::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Answers one connection after the other with fixed bytes, then closes; keeps what came in.
class OneAnswer {
 public:
  enum class Then { close, hold };  // hold: until the client leaves

  explicit OneAnswer(std::string answer, Then then = Then::close, std::string path = "")
      : answer_(std::move(answer)), then_(then), path_(std::move(path)) {
    if (path_.empty()) {
      fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in a{};
      a.sin_family = AF_INET;
      a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      socklen_t size = sizeof a;
      EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&a), size), 0);
      ::getsockname(fd_, reinterpret_cast<sockaddr*>(&a), &size);
      url_ = "http://127.0.0.1:" + std::to_string(ntohs(a.sin_port));
    } else {
      fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_un a{};
      a.sun_family = AF_UNIX;
      std::strncpy(a.sun_path, path_.c_str(), sizeof a.sun_path - 1);
      EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&a), sizeof a), 0);
      url_ = "unix:" + path_;
    }
    EXPECT_EQ(::listen(fd_, 8), 0);
    thread_ = std::thread([this] { serve(); });
  }

  ~OneAnswer() { finish(); }

  const std::string& url() const { return url_; }
  // All that came in; ends the server.
  std::string finish() {
    if (thread_.joinable()) {
      ::shutdown(fd_, SHUT_RDWR);
      thread_.join();
      ::close(fd_);
      if (!path_.empty()) ::unlink(path_.c_str());
    }
    return got_;
  }

 private:
  void serve() {
    for (;;) {
      int client = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) return;
      char buffer[4096];
      std::string request;
      while (!whole(request)) {
        ssize_t n = ::read(client, buffer, sizeof buffer);
        if (n <= 0) break;
        request.append(buffer, static_cast<size_t>(n));
      }
      got_ += request;
      ssize_t sent = ::send(client, answer_.data(), answer_.size(), MSG_NOSIGNAL);
      EXPECT_EQ(sent, static_cast<ssize_t>(answer_.size()));
      if (then_ == Then::hold)
        while (::read(client, buffer, sizeof buffer) > 0) {
        }
      ::close(client);
    }
  }

  static bool whole(const std::string& request) {
    size_t head = request.find("\r\n\r\n");
    if (head == std::string::npos) return false;
    size_t field = request.find("ontent-");
    while (field != std::string::npos && request.compare(field, 8, "ontent-L") != 0 &&
           request.compare(field, 8, "ontent-l") != 0)
      field = request.find("ontent-", field + 1);
    size_t length = field == std::string::npos || field > head
                        ? 0
                        : std::strtoul(request.c_str() + request.find(':', field) + 1, nullptr, 10);
    return request.size() >= head + 4 + length;
  }

  std::string answer_;
  Then then_;
  std::string path_, url_, got_;
  int fd_ = -1;
  std::thread thread_;
};

std::string http(const std::string& status, const std::string& body) {
  return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         body;
}

std::unique_ptr<HttpApi> api_for(
    const std::string& url, std::function<bool()> interrupted = [] { return false; }) {
  Target target = parse_url(url).value();
  target.key = "sk-1";
  return HttpApi::make(target, "", std::move(interrupted)).value();
}

Code code_of(const Result<ApiReply>& reply) { return reply ? Code::internal : reply.error().code; }

TEST(HttpApi, AsksAndCarriesTheKey) {
  OneAnswer server(http("404 Not Found", "{\"error\":{}}"));
  auto reply = api_for(server.url())->call({"PUT", "/berth/v1/services/a%2Fb", "{\"v\":1}"});
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->status, 404);
  EXPECT_EQ(reply->body, "{\"error\":{}}");
  std::string got = server.finish();
  EXPECT_THAT(got, HasSubstr("PUT /berth/v1/services/a%2Fb HTTP/1.1\r\n"));
  EXPECT_THAT(got, HasSubstr("Authorization: Bearer sk-1\r\n"));
  EXPECT_THAT(got, HasSubstr("\r\n\r\n{\"v\":1}"));
}

TEST(HttpApi, OverAUnixSocket) {
  OneAnswer server(http("200 OK", "{}"), OneAnswer::Then::close,
                   "/tmp/berth-http-api-" + std::to_string(::getpid()) + ".sock");
  auto reply = api_for(server.url())->call({"GET", "/x", ""});
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->status, 200);
}

TEST(HttpApi, NothingSentAndNotKnownAreToldApart) {
  std::string url;
  {
    OneAnswer server("");
    url = server.url();
    auto api = api_for(url);
    EXPECT_EQ(code_of(api->call({"PUT", "/x", "{}"})), Code::unknown_outcome)
        << "closed unanswered";
  }
  auto refused = api_for(url)->call({"PUT", "/x", "{}"});
  EXPECT_EQ(code_of(refused), Code::unavailable);
  EXPECT_THAT(refused.error().message, HasSubstr(url));
  OneAnswer cut("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_EQ(code_of(api_for(cut.url())->call({"DELETE", "/x", ""})), Code::unknown_outcome);
}

TEST(HttpApi, ASilentServerIsATimeout) {
  OneAnswer server("", OneAnswer::Then::hold);
  auto api = api_for(server.url());
  EXPECT_EQ(code_of(api->call({"PUT", "/x", "{}", milliseconds(50)})), Code::unknown_outcome);
  EXPECT_EQ(code_of(api->call({"GET", "/x", "", milliseconds(50)})), Code::timeout);
}

TEST(HttpApi, ProxyVariablesAreNotUsed) {  // A03
  OneAnswer proxy(http("200 OK", "proxy")), server(http("200 OK", "server"));
  for (const char* name : {"http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"})
    ::setenv(name, proxy.url().c_str(), 1);
  auto reply = api_for(server.url())->call({"GET", "/x", ""});
  for (const char* name : {"http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"})
    ::unsetenv(name);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->body, "server");
  EXPECT_EQ(proxy.finish(), "");
}

TEST(HttpApi, StreamsAndStops) {
  std::string head = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
  OneAnswer server(head + "data: 1\n\n", OneAnswer::Then::hold);
  std::string text;
  auto reply = api_for(server.url())->stream({"POST", "/v1/x", "{}"}, [&](std::string_view piece) {
    text += piece;
    return text.size() == 9 ? StreamStep::stop : StreamStep::go_on;
  });
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(text, "data: 1\n\n");
}

TEST(HttpApi, AnErrorIsNoStream) {
  OneAnswer server(http("503 Service Unavailable", "{\"error\":{\"message\":\"loading\"}}"));
  int pieces = 0;
  auto reply = api_for(server.url())->stream({"POST", "/v1/x", "{}"}, [&](std::string_view) {
    ++pieces;
    return StreamStep::go_on;
  });
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->status, 503);
  EXPECT_THAT(reply->body, HasSubstr("loading"));
  EXPECT_EQ(pieces, 0);
}

TEST(HttpApi, CtrlCEndsAWait) {
  OneAnswer server("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab", OneAnswer::Then::hold);
  std::atomic<bool> pressed = false;
  auto api = api_for(server.url(), [&] { return pressed.load(); });
  auto reply = api->stream({"POST", "/v1/x", "{}"}, [&](std::string_view) {
    pressed = true;
    return StreamStep::go_on;
  });
  EXPECT_EQ(code_of(reply), Code::cancelled);
  EXPECT_EQ(code_of(api->call({"GET", "/x", ""})), Code::cancelled);
  EXPECT_EQ(code_of(api->call({"PUT", "/berth/v1/x", "{}"})), Code::unknown_outcome);
}

TEST(HttpApi, OddKeysAreRefused) {
  Target target = parse_url("http://127.0.0.1:1").value();
  target.key = "sk\r\nX: y";
  auto made = HttpApi::make(target, "", [] { return false; });
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, Not(HasSubstr("X: y")));
}

}  // namespace
}  // namespace berth::cli
