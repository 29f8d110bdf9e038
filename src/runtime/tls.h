// TLS over a Stream, by OpenSSL: after tls_accept() or tls_connect(), read and write of the same
// stream are encrypted.
//
// TlsContext: certificates and settings, loaded once and shared by streams (immutable: to reload,
// make a new one and use it for new connections; old ones keep theirs).
// Guarantees: TLS 1.2 or later; client side: the peer's certificate is verified against the
// system's authorities (or the given file) and against the name. ALPN answers "http/1.1".
// Threading: a context may be used by several loops; a stream by its own. Errors: OpenSSL's text.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "runtime/socket.h"

typedef struct ssl_ctx_st SSL_CTX;

namespace berth::runtime {

class TlsContext {
 public:
  static Result<std::shared_ptr<const TlsContext>> server(const std::string& certificate_file,
                                                          const std::string& key_file);
  // `authorities_file`: PEM of trusted authorities; empty: the system's.
  static Result<std::shared_ptr<const TlsContext>> client(const std::string& authorities_file = {});
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  SSL_CTX* get() const { return context_; }

 private:
  explicit TlsContext(SSL_CTX* context) : context_(context) {}
  SSL_CTX* context_;
};

// Handshakes; on failure the stream is to be closed.
Task<Status> tls_accept(Stream& stream, std::shared_ptr<const TlsContext> context, Wait wait = {});
Task<Status> tls_connect(Stream& stream, std::shared_ptr<const TlsContext> context,
                         std::string server_name, Wait wait = {});

}  // namespace berth::runtime
