// The parts of HTTP/1.1 heads that the gateway writes. Each appends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace berth::proto {

std::string_view reason_phrase(int status);

// "HTTP/1.1 200 OK\r\n".
void append_status_line(std::string& out, int status, std::string_view reason = {});
// "1a4\r\n" for a chunk of that many bytes.
void append_chunk_size(std::string& out, size_t bytes);
void append_number(std::string& out, uint64_t n);

}  // namespace berth::proto
