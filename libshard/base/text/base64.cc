#include "libshard/base/text/base64.h"

#include <openssl/evp.h>

#include <cassert>
#include <climits>

namespace moepack {
namespace {

constexpr std::string_view kBase64Digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

const unsigned char* Unsigned(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

std::string EncodeBase64(std::string_view bytes) {
  assert(bytes.size() < INT_MAX / 2);
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');  // OpenSSL adds a NUL
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), Unsigned(bytes),
                                     static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(length));
  return text;
}

// OpenSSL skips white space around the text and counts the padding as bytes, so both are looked at
// here.
std::optional<std::string> DecodeBase64(std::string_view text) {
  if (text.empty()) return std::string();
  const std::string_view digits = text.substr(0, text.find_last_not_of('=') + 1);
  const size_t padding = text.size() - digits.size();
  if (text.size() % 4 != 0 || padding > 2 || text.size() > INT_MAX) return std::nullopt;
  if (digits.find_first_not_of(kBase64Digits) != digits.npos) return std::nullopt;
  std::string bytes(text.size() / 4 * 3, '\0');
  const int length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()), Unsigned(text),
                                     static_cast<int>(text.size()));
  if (length < 0) return std::nullopt;
  bytes.resize(static_cast<size_t>(length) - padding);
  return bytes;
}

std::optional<std::string> DecodeExactBase64(std::string_view text) {
  std::optional<std::string> bytes = DecodeBase64(text);
  if (bytes && EncodeBase64(*bytes) != text) return std::nullopt;
  return bytes;
}

}  // namespace moepack
