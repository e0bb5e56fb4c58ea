// Text that may be anything, made valid.
#pragma once

#include <string>
#include <string_view>

namespace moepack::runtime {

// Valid UTF-8 is returned unchanged. A byte that does not begin a valid character (stray
// continuation bytes, characters cut short, overlong forms, surrogates, beyond U+10FFFF) becomes
// U+FFFD, and the next byte is looked at.
std::string RepairUtf8(std::string_view text);

}  // namespace moepack::runtime
