// How often the keys that the gateway edits occur in an engine's reply, at any depth.
//
// A search for bytes, exact in JSON: inside a string the quotes around a key would be escaped. (A
// string that is a value and reads "model" counts too.) Cost: about 0.3 ns a byte.
#pragma once

#include <string_view>

namespace berth::proto {

struct ReplyKeys {
  int model = 0;
  int usage = 0;

  bool none() const { return model == 0 && usage == 0; }
};

ReplyKeys count_reply_keys(std::string_view json);

}  // namespace berth::proto
