// The character that stands for a space in the tokens of SentencePiece.
#pragma once

#include <string>
#include <string_view>

namespace moepack {

inline constexpr std::string_view kSpaceMark = "\u2581";

// "\u2581a\u2581b" -> " a b".
std::string MarksToSpaces(std::string_view text);

}  // namespace moepack
