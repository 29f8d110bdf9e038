// What a Stream asks of TLS: read and write like the system calls, over the stream's fd.
//
// The interface alone, so that plain streams need not know OpenSSL; tls.h implements it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string_view>

namespace berth::runtime {

class TlsSession {
 public:
  virtual ~TlsSession() = default;
  // Bytes read; 0 at a clean end; -1 with errno (EAGAIN: wait for the fd and call again).
  virtual ssize_t read(char* to, size_t size) = 0;
  // Bytes taken of a and then b; -1 with errno as above.
  virtual ssize_t write(std::string_view a, std::string_view b) = 0;
  // Decrypted bytes wait, so read() has something although the fd has not.
  virtual bool pending() const = 0;
  // Sends close_notify, best effort.
  virtual void close_notify() = 0;
};

}  // namespace berth::runtime
