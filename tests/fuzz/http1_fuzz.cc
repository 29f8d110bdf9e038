// Fuzzes the HTTP/1.1 head scanner and the body scanner. The first byte chooses request or
// response, the second where the input is cut. Besides memory errors: the outcome may not depend
// on the cut, what passes a gateway parses again, and a closed broken body is a whole body.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "proto/http1_body.h"

namespace {

using namespace berth::proto;

void require(bool ok) {
  if (!ok) abort();
}

void check_body(const BodyScanner& fresh, std::string_view body, size_t cut) {
  if (cut > body.size()) cut = body.size();
  BodyScanner whole = fresh, split = fresh;
  std::string a, b;
  size_t used = whole.feed(body, [&](std::string_view p) { a.append(p); });
  size_t used2 = split.feed(body.substr(0, cut), [&](std::string_view p) { b.append(p); });
  auto closing = split.closing_bytes("data: x\n\n");
  if (closing && used2 == cut) {
    BodyScanner client = fresh;
    std::string raw = std::string(body.substr(0, cut)) + *closing;
    client.feed(raw, [](std::string_view) {});
    require(client.done());
  }
  if (used2 == cut) used2 += split.feed(body.substr(cut), [&](std::string_view p) { b.append(p); });
  require(used == used2 && a == b && whole.done() == split.done() && whole.bad() == split.bad());
}

template <class Head, class Parse, class Start>
void check(std::string_view text, size_t cut, Parse parse, Start start) {
  Head whole, split;
  HeadResult r = parse(text, 0, whole);
  if (cut > text.size()) cut = text.size();
  HeadResult first = parse(text.substr(0, cut), 0, split);
  require(!(first.state == HeadState::done && r.state != HeadState::done));
  if (first.state == HeadState::need_more) {
    HeadResult second = parse(text, cut, split);
    // What is wrong in a line may come to light only with the end of the head.
    require(second.state == r.state ||
            (second.state == HeadState::need_more && r.state == HeadState::bad));
    if (r.state == HeadState::done) require(split.size == whole.size);
  }
  if (r.state != HeadState::done) return;
  require(whole.size <= text.size());
  BodyScanner scanner;
  start(whole, scanner);
  check_body(scanner, text.substr(whole.size), cut);
  std::string again = whole.is_response ? "HTTP/1.1 200 OK\r\n" : "GET / HTTP/1.1\r\nHost: h\r\n";
  whole.append_passing(again);
  again += "\r\n";
  Head filtered;
  require(parse(again, 0, filtered).state == HeadState::done);
  require(filtered.size == again.size() && !filtered.chunked && filtered.content_length < 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  size_t cut = data[1];
  if (data[0] & 1) {
    check<ResponseHead>(
        text, cut,
        [](std::string_view t, size_t seen, ResponseHead& h) { return parse_response(t, seen, h); },
        [](const ResponseHead& h, BodyScanner& s) {
          s.start_response(h, BodyScanner::Answering::other);
        });
  } else {
    check<RequestHead>(
        text, cut,
        [](std::string_view t, size_t seen, RequestHead& h) { return parse_request(t, seen, h); },
        [](const RequestHead& h, BodyScanner& s) { s.start_request(h); });
  }
  return 0;
}
