// Makes any text valid.
#pragma once

#include <string>
#include <string_view>

namespace moepack::runtime {

// Valid UTF-8 is returned unchanged. A byte that does not begin a valid character (stray
// continuation bytes, characters cut short, overlong forms, surrogates, beyond U+10FFFF) becomes
// U+FFFD, and decoding continues with the next byte.
std::string RepairUtf8(std::string_view text);

}  // namespace moepack::runtime
