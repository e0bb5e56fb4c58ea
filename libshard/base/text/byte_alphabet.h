// The alphabet of byte-level BPE: it spells every byte as one printable character, so that tokens
// are text. Printable bytes stand for themselves, the others for characters from U+0100 on, in
// order. Source: GPT-2's encoder.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace moepack {

// The character of each byte, in UTF-8.
const std::array<std::string, 256>& ByteAlphabet();

// " a" -> "\u0120a".
std::string SpellBytes(std::string_view bytes);
// The reverse; a character outside the alphabet is kept as it is.
std::string UnspellBytes(std::string_view text);

}  // namespace moepack
