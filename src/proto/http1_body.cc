#include "proto/http1_body.h"

#include "proto/http1_write.h"

namespace berth::proto {

void BodyScanner::start_request(const RequestHead& head) {
  *this = BodyScanner();
  if (head.chunked) {
    kind_ = Kind::chunked;
    state_ = State::size;
  } else if (head.content_length > 0) {
    kind_ = Kind::length;
    left_ = static_cast<uint64_t>(head.content_length);
    state_ = State::data;
  }
}

void BodyScanner::start_response(const ResponseHead& head, Answering answering) {
  *this = BodyScanner();
  if (answering == Answering::head || head.status < 200 || head.status == 204 || head.status == 304)
    return;
  if (head.chunked) {
    kind_ = Kind::chunked;
    state_ = State::size;
  } else if (head.content_length >= 0) {
    kind_ = Kind::length;
    left_ = static_cast<uint64_t>(head.content_length);
    state_ = left_ ? State::data : State::done;
  } else {
    kind_ = Kind::until_close;
    state_ = State::data;
  }
}

void BodyScanner::scan_frame(char c) {
  auto expect = [&](char want, State next) { state_ = c == want ? next : State::bad; };
  switch (state_) {
    case State::size: {
      int digit = c >= '0' && c <= '9'   ? c - '0'
                  : c >= 'a' && c <= 'f' ? c - 'a' + 10
                  : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                         : -1;
      if (digit >= 0 && digits_ < 15) {
        left_ = left_ << 4 | static_cast<uint64_t>(digit);
        digits_++;
      } else if (digits_ > 0 && c == '\r') {
        state_ = State::size_lf;
      } else if (digits_ > 0 && c == ';') {
        line_ = 0;
        state_ = State::extension;
      } else {
        state_ = State::bad;
      }
      break;
    }
    case State::extension:
      if (c == '\r') {
        state_ = State::size_lf;
      } else if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || ++line_ > kMaxLine) {
        state_ = State::bad;
      }
      break;
    case State::size_lf:
      line_ = 0;
      digits_ = 0;
      expect('\n', left_ ? State::data : State::trailer);
      break;
    case State::data_cr:
      expect('\r', State::data_lf);
      break;
    case State::data_lf:
      expect('\n', State::size);
      break;
    case State::trailer:
      state_ = c == '\r' ? State::final_lf : State::trailer_line;
      [[fallthrough]];
    case State::trailer_line:
      if (state_ == State::final_lf) break;
      if (c == '\r') {
        state_ = State::trailer_lf;
      } else if (c == '\n' || c == '\0' || ++line_ > kMaxLine) {
        state_ = State::bad;
      }
      break;
    case State::trailer_lf:
      expect('\n', State::trailer);
      break;
    case State::final_lf:
      expect('\n', State::done);
      break;
    case State::data:
    case State::done:
    case State::bad:
      break;
  }
}

std::optional<std::string> BodyScanner::closing_bytes(std::string_view text) const {
  constexpr uint64_t kMostPadding = 64 * 1024;
  if (kind_ != Kind::chunked) return std::nullopt;
  std::string out;
  switch (state_) {
    case State::size:
      if (digits_ > 0) return std::nullopt;
      break;
    case State::data: {
      if (left_ > kMostPadding) return std::nullopt;
      auto room = static_cast<size_t>(left_);
      size_t of_text = std::min(room, text.size());
      out.append(text.substr(0, of_text));
      out.append(room - of_text, '\n');  // empty lines mean nothing in an event stream
      text.remove_prefix(of_text);
      out.append("\r\n");
      break;
    }
    case State::data_cr:
      out.append("\r\n");
      break;
    case State::data_lf:
      out.append("\n");
      break;
    default:
      return std::nullopt;
  }
  if (!text.empty()) {
    append_chunk_size(out, text.size());
    out.append(text).append("\r\n");
  }
  out.append("0\r\n\r\n");
  return out;
}

}  // namespace berth::proto
