// Base64 with '+', '/' and padding (RFC 4648, section 4), in which signatures are written down.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace moepack::registry {

std::string ToBase64(std::string_view bytes);
// Takes nothing but the one spelling that ToBase64 gives: no spaces, no missing padding, no bits
// left over.
std::optional<std::string> FromBase64(std::string_view text);

}  // namespace moepack::registry
