// The tokens of single bytes, for what a vocabulary has no other token: "<0x1F>".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moepack {

std::string SpellByteToken(uint8_t byte);  // with upper-case digits
// The reverse, for digits of either case; no value for any other text.
std::optional<uint8_t> ReadByteToken(std::string_view text);

}  // namespace moepack
