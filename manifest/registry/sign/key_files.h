// Keys and passphrases in files.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/registry/sign/keys.h"
#include "manifest/registry/sign/secret.h"

namespace moepack::registry {

// Read where no file of a passphrase is named.
inline constexpr const char* kPassphraseVariable = "MOEPACK_SIGN_PASSPHRASE";

// The first line of the file; with "" for a path, the value of kPassphraseVariable. Empty when
// neither is there. kInvalidArgument for a file whose first line is empty.
Result<Secret> ReadPassphrase(const std::string& path);

Result<PublicKey> ReadPublicKey(const std::string& path);
Result<PrivateKey> ReadPrivateKey(const std::string& path, const Secret& passphrase);
// kInvalidArgument when two of the files hold the same key.
Result<std::vector<PublicKey>> ReadPublicKeys(const std::vector<std::string>& paths);

// Where WriteKeyPair puts its files.
struct KeyPaths {
  std::string private_key, public_key;  // "<name>.key", "<name>.pub"
};
KeyPaths KeyPathsOf(const std::string& name);
// Makes both files; the private one can be read by its owner only. kInvalidArgument, and nothing is
// changed, when one of them is there.
Status WriteKeyPair(const KeyPaths& paths, const PrivateKey& key, const Secret& passphrase);

}  // namespace moepack::registry
