// How tokenizers spell bytes as text: by the alphabet of byte-level BPE, or by tokens such as
// "<0x1F>".
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moepack {

// The character of each byte, in UTF-8.
const std::array<std::string, 256>& ByteAlphabet();

// " a" -> "\u0120a".
std::string SpellBytes(std::string_view bytes);
// The reverse; a character outside the alphabet is kept as it is.
std::string UnspellBytes(std::string_view text);

// The tokens of single bytes, for what a vocabulary has no other token: "<0x1F>".

std::string SpellByteToken(uint8_t byte);  // with upper-case digits
// The reverse, for digits of either case; no value for any other text.
std::optional<uint8_t> ReadByteToken(std::string_view text);

}  // namespace moepack
