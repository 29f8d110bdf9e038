#include "proto/http1_write.h"

#include <charconv>

namespace berth::proto {

std::string_view reason_phrase(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 424:
      return "Failed Dependency";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

void append_number(std::string& out, uint64_t n) {
  char text[24];
  auto end = std::to_chars(text, text + sizeof text, n).ptr;
  out.append(text, end);
}

void append_status_line(std::string& out, int status, std::string_view reason) {
  out.append("HTTP/1.1 ");
  append_number(out, static_cast<uint64_t>(status));
  out.append(" ").append(reason.empty() ? reason_phrase(status) : reason).append("\r\n");
}

void append_chunk_size(std::string& out, size_t bytes) {
  char text[24];
  auto end = std::to_chars(text, text + sizeof text, bytes, 16).ptr;
  out.append(text, end).append("\r\n");
}

}  // namespace berth::proto
