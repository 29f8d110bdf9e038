// Reads a multipart/form-data body (audio routes) without rebuilding it.
//
// Finds the "model" and "stream" fields wherever they stand and the bytes of their values, so that
// another model name can be spliced in; file bytes, file names, order and unknown fields stay.
// Guarantees and errors are as in openai.h: no "model", two of them, a missing boundary or an
// unfinished part are Code::invalid_argument. Cost: one search for the boundary over the body.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "proto/splice.h"

namespace berth::proto {

struct MultipartPeek {
  std::string model;
  Span model_value;  // the bytes between the part's head and the next delimiter
  bool stream = false;
};

// True for a Content-Type of multipart/form-data.
bool is_multipart(std::string_view content_type);

Result<MultipartPeek> peek_multipart(std::string_view content_type, std::string_view body);

// The splice that puts `model` in place. The caller knows that `model` holds no line break.
SpliceList plan_multipart_edits(const MultipartPeek& peek, std::string_view model);

}  // namespace berth::proto
