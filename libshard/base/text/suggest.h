// Finds the closest known word to a mistyped one, for "did you mean".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"

namespace moepack {

// "" if none is close: more than a quarter of the letters would have to change. Two swapped letters
// are one change; case, "-" and "_" do not count. The beginning of a word is close to it. Of
// several that are equally close, the first.
std::string ClosestWord(std::string_view word, const std::vector<std::string>& known);
// "did you mean verify?", with all that are equally close: "did you mean Q4_0 or Q4_1?". "" if no
// known word is close, or too many are.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& known);
// kInvalidArgument: "<what>: expected one of <known>, found <word>", with the close word as a hint.
// Without `what` the message begins with "expected".
Error NotOneOf(std::string_view what, const std::vector<std::string>& known, std::string_view word);

}  // namespace moepack
