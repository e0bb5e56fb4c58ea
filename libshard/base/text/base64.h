// Base64 as defined in RFC 4648, section 4.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace moepack {

// "any carnal" -> "YW55IGNhcm5hbA==".
std::string EncodeBase64(std::string_view bytes);
// The reverse. No value for text that is not whole groups of four, has other characters, or has '='
// anywhere but at its end. Unused bits after the last byte are ignored.
std::optional<std::string> DecodeBase64(std::string_view text);
// The same, but only for the one spelling that EncodeBase64 produces: no value for any other.
std::optional<std::string> DecodeExactBase64(std::string_view text);

}  // namespace moepack
