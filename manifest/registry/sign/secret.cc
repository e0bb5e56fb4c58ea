#include "manifest/registry/sign/secret.h"

#include <openssl/crypto.h>

namespace moepack::registry {

Secret::~Secret() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

void Wipe(std::string& text) {
  OPENSSL_cleanse(text.data(), text.size());
  text.clear();
}

}  // namespace moepack::registry
