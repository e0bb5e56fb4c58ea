// Keys and passphrases in files.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/registry/sign/keys.h"
#include "manifest/registry/sign/secret.h"

namespace moepack::registry {

// Read if no passphrase file is named.
inline constexpr const char* kPassphraseVariable = "MOEPACK_SIGN_PASSPHRASE";

// The first line of the file; with "" for a path, the value of kPassphraseVariable. Empty if
// neither exists. kInvalidArgument for a file whose first line is empty.
Result<Secret> ReadPassphrase(const std::string& path);

Result<PublicKey> ReadPublicKey(const std::string& path);
Result<PrivateKey> ReadPrivateKey(const std::string& path, const Secret& passphrase);
// kInvalidArgument if two of the files contain the same key.
Result<std::vector<PublicKey>> ReadPublicKeys(const std::vector<std::string>& paths);

// Where WriteKeyPair puts its files.
struct KeyPaths {
  std::string private_key, public_key;  // "<name>.key", "<name>.pub"
};
KeyPaths KeyPathsOf(const std::string& name);
// Creates both files; only the owner can read the private one. kInvalidArgument, and nothing is
// changed, if one of them exists.
Status WriteKeyPair(const KeyPaths& paths, const PrivateKey& key, const Secret& passphrase);

}  // namespace moepack::registry
