#include "libshard/base/text/byte_token.h"

#include <charconv>

namespace moepack {

std::string SpellByteToken(uint8_t byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
}

std::optional<uint8_t> ReadByteToken(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return std::nullopt;
  const char* end = text.data() + 5;
  uint8_t byte = 0;
  const auto [read, error] = std::from_chars(text.data() + 3, end, byte, 16);
  if (error != std::errc() || read != end) return std::nullopt;
  return byte;
}

}  // namespace moepack
