#include "libshard/base/text/base64.h"

#include <cstdint>

namespace moepack {
namespace {

constexpr std::string_view kBase64Digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string EncodeBase64(std::string_view bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k)
      text += i + k <= bytes.size() ? kBase64Digits[bits >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::optional<std::string> DecodeBase64(std::string_view text) {
  const std::string_view digits = text.substr(0, text.find_last_not_of('=') + 1);
  if (text.size() % 4 != 0 || text.size() - digits.size() > 2) return std::nullopt;
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char digit : digits) {
    const size_t value = kBase64Digits.find(digit);
    if (value == kBase64Digits.npos) return std::nullopt;
    bits = (bits << 6 | static_cast<uint32_t>(value)) & 0xffffff;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

std::optional<std::string> DecodeExactBase64(std::string_view text) {
  std::optional<std::string> bytes = DecodeBase64(text);
  if (bytes && EncodeBase64(*bytes) != text) return std::nullopt;
  return bytes;
}

}  // namespace moepack
