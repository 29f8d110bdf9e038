#include "runtime/resolve.h"

#include <netdb.h>

namespace berth::runtime {

Result<std::vector<Address>> resolve_now(const std::string& text) {
  auto numeric = Address::parse(text);
  if (numeric.ok()) return std::vector<Address>{*numeric};
  size_t colon = text.rfind(':');
  if (colon == text.npos || colon == 0 || text.starts_with("unix:")) return numeric.error();
  std::string host = text.substr(0, colon), port = text.substr(colon + 1);
  if (port.empty() || port.find_first_not_of("0123456789") != port.npos) return numeric.error();
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  if (int rc = getaddrinfo(host.c_str(), port.c_str(), &hints, &list); rc != 0) {
    Error e = unavailable("look up \"" + host + "\": " + gai_strerror(rc) +
                              "; check the name, or use a numeric address",
                          Source::system);
    e.retry = rc == EAI_AGAIN ? Retry::yes : Retry::no;
    return e;
  }
  std::vector<Address> out;
  for (addrinfo* a = list; a; a = a->ai_next)
    out.push_back(Address::from_sockaddr(a->ai_addr, a->ai_addrlen));
  freeaddrinfo(list);
  if (out.empty()) return unavailable("look up \"" + host + "\": no address", Source::system);
  return out;
}

Task<Result<std::vector<Address>>> resolve(BlockingPool& pool, std::string text) {
  auto numeric = Address::parse(text);
  if (numeric.ok()) co_return std::vector<Address>(1, *numeric);
  auto look_up = [text] { return resolve_now(text); };
  co_return co_await pool.run(look_up);
}

}  // namespace berth::runtime
