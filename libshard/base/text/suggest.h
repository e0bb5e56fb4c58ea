// Finds the closest known word to a mistyped one, for "did you mean".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"

namespace moepack {

// "" if none is close: more than a quarter of the letters would have to change. Two swapped letters
// are one change, and case does not count.
std::string ClosestWord(std::string_view word, const std::vector<std::string>& known);
// "did you mean verify?", or "" if no known word is close.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& known);
// kInvalidArgument: "<what>: expected one of <known>, found <word>", with the close word as a hint.
// Without `what` the message begins with "expected".
Error NotOneOf(std::string_view what, const std::vector<std::string>& known, std::string_view word);

}  // namespace moepack
