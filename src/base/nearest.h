// The names most like a mistyped one: for "did you mean" in messages.
//
// Compared without case, as a whole and after the last slash, by the letters changed, added, left
// out or swapped with their neighbour (up to a third of the name). A part of a name is near too:
// who writes "qwen3" means "qwen3-coder-30b". Names are compared by their first 128 letters.
// Cost: about 1 us per name of similar length; for error messages only.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace berth {

// At most `limit` of `names` that someone who wrote `wanted` may have meant, best first, then in
// the order of the alphabet.
std::vector<std::string> nearest(std::string_view wanted, std::span<const std::string> names,
                                 size_t limit);

// "; did you mean \"x\" or \"y\"?", or "" when nothing is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace berth
