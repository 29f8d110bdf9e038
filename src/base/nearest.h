// The names most like a mistyped one: for "did you mean" in messages.
//
// Distance is the number of letters changed, added, left out or swapped with their neighbour,
// ignoring case; a candidate that begins or ends with the whole word after a '/' counts as near.
// Cost: word length times candidate length, for each candidate; lengths over 128 are never near.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace berth {

// At most `limit` candidates that are near enough to be meant, nearest first, then in order.
std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates,
                                 size_t limit);

// "; did you mean \"x\" or \"y\"?", or "" when nothing is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace berth
