// What versions of an overlay may be called.
#pragma once

#include <string_view>

namespace moepack {

// Words of --overlay that name no version.
inline constexpr std::string_view kNoOverlay = "none", kAutomaticOverlay = "auto";

// Null for a text that a new version may be called; otherwise what was expected: a label (IsLabel)
// that is no word of --overlay. Distributions that older moepacks wrote may have others.
const char* ExpectedOverlayName(std::string_view text);

}  // namespace moepack
