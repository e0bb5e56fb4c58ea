// Finds the closest known word to a mistyped one, for "did you mean".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moepack::cli {

// "" if none is close: more than a third of the letters would have to change.
std::string ClosestWord(std::string_view word, const std::vector<std::string>& known);

}  // namespace moepack::cli
