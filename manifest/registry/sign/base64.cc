#include "manifest/registry/sign/base64.h"

#include <openssl/evp.h>

#include <algorithm>

namespace moepack::registry {

std::string ToBase64(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL writes a NUL behind it
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  out.resize(static_cast<size_t>(size));
  return out;
}

std::optional<std::string> FromBase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string out(text.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  if (size < 0) return std::nullopt;
  // It counts padding as bytes, and takes spaces at both ends.
  const size_t last = std::min(text.find_last_not_of('=') + 1, text.size());
  out.resize(static_cast<size_t>(size) - std::min<size_t>(text.size() - last, 2));
  if (ToBase64(out) != text) return std::nullopt;
  return out;
}

}  // namespace moepack::registry
