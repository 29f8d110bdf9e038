#include "runtime/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cstring>

#include "runtime/tls_session.h"

namespace berth::runtime {

namespace {

std::string openssl_text() {
  std::string out;
  while (unsigned long e = ERR_get_error()) {
    char text[256];
    ERR_error_string_n(e, text, sizeof text);
    if (!out.empty()) out += "; ";
    out += text;
  }
  return out.empty() ? "no details" : out;
}

Error tls_error(const std::string& what) {
  Error e;
  e.code = Code::unavailable;
  e.source = Source::peer;
  e.message = what + ": " + openssl_text();
  return e;
}

int choose_alpn(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in,
                unsigned in_size, void*) {
  static const unsigned char kHttp1[] = "\x08http/1.1";
  unsigned char* chosen = nullptr;
  int rc = SSL_select_next_proto(&chosen, out_size, kHttp1, sizeof kHttp1 - 1, in, in_size);
  *out = chosen;
  return rc == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

void common_options(SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
}

class OpenSslSession final : public TlsSession {
 public:
  OpenSslSession(SSL* ssl, std::shared_ptr<const TlsContext> context)
      : ssl_(ssl), context_(std::move(context)) {}
  ~OpenSslSession() override { SSL_free(ssl_); }

  ssize_t read(char* to, size_t size) override {
    ERR_clear_error();
    return result(SSL_read(ssl_, to, static_cast<int>(size)));
  }

  ssize_t write(std::string_view a, std::string_view b) override {
    ERR_clear_error();
    // Both parts in one record where they fit: half the overhead on the wire.
    constexpr size_t kRecord = 16 * 1024;
    char joined[kRecord];
    std::string_view bytes = a.empty() ? b : a;
    if (!a.empty() && !b.empty() && a.size() < kRecord) {
      memcpy(joined, a.data(), a.size());
      size_t of_b = std::min(b.size(), kRecord - a.size());
      memcpy(joined + a.size(), b.data(), of_b);
      bytes = {joined, a.size() + of_b};
    }
    return result(SSL_write(ssl_, bytes.data(), static_cast<int>(std::min(bytes.size(), kRecord))));
  }

  bool pending() const override { return SSL_pending(ssl_) > 0; }

  void close_notify() override {
    ERR_clear_error();
    if (established_) SSL_shutdown(ssl_);
    ERR_clear_error();
  }

  // 1 done, 0 wait for bytes, 2 wait for room, -1 failed.
  int handshake() {
    ERR_clear_error();
    int rc = SSL_do_handshake(ssl_);
    if (rc == 1) {
      established_ = true;
      return 1;
    }
    int why = SSL_get_error(ssl_, rc);
    return why == SSL_ERROR_WANT_READ ? 0 : why == SSL_ERROR_WANT_WRITE ? 2 : -1;
  }
  SSL* ssl() { return ssl_; }

 private:
  ssize_t result(int n) {
    if (n > 0) return n;
    switch (SSL_get_error(ssl_, n)) {
      case SSL_ERROR_WANT_READ:
      case SSL_ERROR_WANT_WRITE:
        errno = EAGAIN;
        return -1;
      case SSL_ERROR_ZERO_RETURN:
        return 0;
      case SSL_ERROR_SYSCALL:
        if (errno == 0 || errno == EAGAIN) errno = ECONNRESET;
        return -1;
      default:  // includes an end without close_notify: a cut, not an end
        errno = EPROTO;
        ERR_clear_error();
        return -1;
    }
  }

  SSL* ssl_;
  std::shared_ptr<const TlsContext> context_;
  bool established_ = false;
};

Task<Status> shake(Stream& stream, OpenSslSession& session, std::string what, Wait wait) {
  for (;;) {
    int state = session.handshake();
    if (state == 1) co_return Status();
    if (state < 0) {
      long verify = SSL_get_verify_result(session.ssl());
      Error e = tls_error(what);
      if (verify != X509_V_OK)
        e.message +=
            std::string("; the peer's certificate: ") + X509_verify_cert_error_string(verify);
      co_return e;
    }
    state == 0 ? stream.mark_drained() : stream.mark_full();
    FdReady ready(stream, state == 0 ? FdReady::For::read : FdReady::For::write, wait);
    WriteEnd end = co_await ready;
    if (end == WriteEnd::timed_out) co_return timed_out(what + ": no answer in time", Source::peer);
    if (end == WriteEnd::cancelled) co_return Error{Code::cancelled, what + ": the client left"};
  }
}

}  // namespace

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

Result<std::shared_ptr<const TlsContext>> TlsContext::server(const std::string& certificate_file,
                                                             const std::string& key_file) {
  ERR_clear_error();
  SSL_CTX* raw = SSL_CTX_new(TLS_server_method());
  CHECK(raw != nullptr);
  std::shared_ptr<const TlsContext> out(new TlsContext(raw));
  common_options(raw);
  SSL_CTX_set_alpn_select_cb(raw, choose_alpn, nullptr);
  if (SSL_CTX_use_certificate_chain_file(raw, certificate_file.c_str()) != 1)
    return tls_error("load the TLS certificate " + certificate_file).wrap("TLS");
  if (SSL_CTX_use_PrivateKey_file(raw, key_file.c_str(), SSL_FILETYPE_PEM) != 1)
    return tls_error("load the TLS key " + key_file).wrap("TLS");
  if (SSL_CTX_check_private_key(raw) != 1)
    return tls_error("the TLS key " + key_file + " is not of " + certificate_file).wrap("TLS");
  return out;
}

Result<std::shared_ptr<const TlsContext>> TlsContext::client(const std::string& authorities_file) {
  ERR_clear_error();
  SSL_CTX* raw = SSL_CTX_new(TLS_client_method());
  CHECK(raw != nullptr);
  std::shared_ptr<const TlsContext> out(new TlsContext(raw));
  common_options(raw);
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER, nullptr);
  int rc = authorities_file.empty()
               ? SSL_CTX_set_default_verify_paths(raw)
               : SSL_CTX_load_verify_locations(raw, authorities_file.c_str(), nullptr);
  if (rc != 1) return tls_error("load trusted authorities from " + authorities_file).wrap("TLS");
  return out;
}

Task<Status> tls_accept(Stream& stream, std::shared_ptr<const TlsContext> context, Wait wait) {
  SSL* ssl = SSL_new(context->get());
  CHECK(ssl != nullptr);
  SSL_set_fd(ssl, stream.fd());
  SSL_set_accept_state(ssl);
  auto session = std::make_unique<OpenSslSession>(ssl, std::move(context));
  Status status = co_await shake(stream, *session, "TLS handshake with a client", wait);
  if (status.ok()) stream.set_tls(std::move(session));
  co_return status;
}

Task<Status> tls_connect(Stream& stream, std::shared_ptr<const TlsContext> context,
                         std::string server_name, Wait wait) {
  SSL* ssl = SSL_new(context->get());
  CHECK(ssl != nullptr);
  auto session = std::make_unique<OpenSslSession>(ssl, std::move(context));
  SSL_set_fd(ssl, stream.fd());
  SSL_set_connect_state(ssl);
  X509_VERIFY_PARAM* verify = SSL_get0_param(ssl);
  if (X509_VERIFY_PARAM_set1_ip_asc(verify, server_name.c_str()) != 1) {
    SSL_set_tlsext_host_name(ssl, server_name.c_str());
    SSL_set1_host(ssl, server_name.c_str());
  }
  std::string what = "TLS handshake with " + server_name;
  Status status = co_await shake(stream, *session, what, wait);
  if (status.ok()) stream.set_tls(std::move(session));
  co_return status;
}

}  // namespace berth::runtime
