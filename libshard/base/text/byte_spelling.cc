#include "libshard/base/text/byte_spelling.h"

#include <charconv>
#include <cstdint>

#include "libshard/base/text/utf8.h"

namespace moepack {
namespace {

std::array<std::string, 256> MakeAlphabet() {
  std::array<std::string, 256> alphabet;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < alphabet.size(); ++byte) {
    const bool plain = (byte > ' ' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
    const uint32_t point = plain ? byte : next++;
    if (point < 0x80) {
      alphabet[byte] = static_cast<char>(point);
    } else {
      alphabet[byte] = {static_cast<char>(0xc0 | point >> 6),
                        static_cast<char>(0x80 | (point & 63))};
    }
  }
  return alphabet;
}

// The largest code point of the alphabet is U+0143.
constexpr size_t kPoints = 0x144;

// By code point: the byte that it stands for, or -1.
std::array<int, kPoints> MakeBytes() {
  std::array<int, kPoints> bytes;
  bytes.fill(-1);
  for (size_t byte = 0; byte < 256; ++byte) {
    const char32_t point = FirstCharacter(ByteAlphabet()[byte]).code;
    bytes[point] = static_cast<int>(byte);
  }
  return bytes;
}

}  // namespace

const std::array<std::string, 256>& ByteAlphabet() {
  static const std::array<std::string, 256> alphabet = MakeAlphabet();
  return alphabet;
}

std::string SpellBytes(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += ByteAlphabet()[static_cast<unsigned char>(c)];
  return text;
}

std::string UnspellBytes(std::string_view text) {
  static const std::array<int, kPoints> bytes = MakeBytes();
  std::string out;
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    const bool known = character.is_utf8 && character.code < kPoints;
    const int byte = known ? bytes[character.code] : -1;
    if (byte < 0) {
      out += text.substr(0, character.bytes);
    } else {
      out += static_cast<char>(byte);
    }
    text.remove_prefix(character.bytes);
  }
  return out;
}

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
