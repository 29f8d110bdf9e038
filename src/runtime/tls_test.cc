#include "runtime/tls.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/command.h"
#include "runtime/task_scope.h"

namespace berth::runtime {
namespace {

struct Certificate {
  std::filesystem::path dir;
  std::string cert, key;
  Certificate() {
    dir = std::filesystem::temp_directory_path() / ("berth-tls-" + std::to_string(getpid()));
    std::filesystem::create_directories(dir);
    cert = dir / "cert.pem";
    key = dir / "key.pem";
    Command c;
    c.argv = {"openssl",
              "req",
              "-x509",
              "-newkey",
              "ec",
              "-pkeyopt",
              "ec_paramgen_curve:P-256",
              "-nodes",
              "-keyout",
              key,
              "-out",
              cert,
              "-days",
              "2",
              "-subj",
              "/CN=localhost",
              "-addext",
              "subjectAltName=DNS:localhost,IP:127.0.0.1"};
    c.env = {"PATH=/usr/bin:/bin"};
    auto r = run_command(c);
    CHECK(r && r->exited(0));
  }
  ~Certificate() { std::filesystem::remove_all(dir); }
};

Task<void> serve_echo(Listener& listener, std::shared_ptr<const TlsContext> context) {
  auto accepted = co_await listener.accept();
  StreamPtr s = std::move(accepted).value();
  Status status = co_await tls_accept(*s, context);
  if (!status.ok()) co_return;
  std::string all;
  while (all.size() < 300'000) {
    ReadResult got = co_await s->read();
    if (!got.ok()) co_return;
    all.append(got.view.bytes());
  }
  co_await s->write("head:", all);
}

Task<std::string> talk(Loop& loop, Listener& listener, std::shared_ptr<const TlsContext> server,
                       std::shared_ptr<const TlsContext> client, std::string name) {
  TaskScope scope(loop);
  scope.spawn(serve_echo(listener, server));
  auto connected = co_await connect(loop, listener.address());
  StreamPtr s = std::move(connected).value();
  Status status = co_await tls_connect(*s, client, name);
  if (!status.ok()) co_return "refused: " + status.error().message;
  std::string sent(300'000, 'q');
  co_await s->write(sent);
  std::string got;
  for (;;) {
    ReadResult r = co_await s->read();
    if (r.end == ReadEnd::eof) break;
    if (!r.ok()) co_return "failed";
    got.append(r.view.bytes());
  }
  co_await scope.join();
  co_return got == "head:" + sent ? "whole" : "different";
}

TEST(Tls, CarriesBytesAndVerifiesTheName) {
  Certificate files;
  Loop loop;
  auto server = TlsContext::server(files.cert, files.key);
  auto client = TlsContext::client(files.cert);
  ASSERT_TRUE(server.ok()) << server.error().message;
  ASSERT_TRUE(client.ok());
  auto listener = std::move(Listener::open(loop, Address::loopback(0))).value();
  EXPECT_EQ(loop.run_until(talk(loop, *listener, *server, *client, "localhost")), "whole");
  EXPECT_EQ(loop.run_until(talk(loop, *listener, *server, *client, "127.0.0.1")), "whole");
  std::string wrong = loop.run_until(talk(loop, *listener, *server, *client, "elsewhere"));
  EXPECT_TRUE(wrong.starts_with("refused")) << wrong;
}

TEST(Tls, SaysWhichFileIsBad) {
  auto r = TlsContext::server("/nonexistent/cert.pem", "/nonexistent/key.pem");
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().message.find("/nonexistent/cert.pem"), std::string::npos);
}

}  // namespace
}  // namespace berth::runtime
