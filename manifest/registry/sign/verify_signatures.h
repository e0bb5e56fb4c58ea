// Whether somebody whose key is known signed a manifest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/registry/sign/keys.h"
#include "manifest/registry/sign/signature_manifest.h"
#include "manifest/registry/sign/simple_signing.h"
#include "manifest/registry/store/store.h"

namespace moepack::registry {

// A signature by one of the keys, over this manifest.
struct GoodSignature {
  std::string key_name;  // its file
  std::string key_id;
  KeyType key_type = KeyType::kP256;
  std::string identity;        // where the signer said that the manifest lives; not compared
  std::string payload_digest;  // of the bytes that were signed
};

struct SignatureReport {
  std::string digest;               // of the manifest
  uint64_t found = 0;               // signatures, good or not
  std::vector<GoodSignature> good;  // at least one
};

// The manifest of the signatures of `digest`; no value when there is none.
Result<std::optional<OciManifest>> FindSignatures(const Store& store, const std::string& digest);

// What a signature of `oci` says is believed only after a key vouches for its bytes. Every
// signature is looked at; one good one is enough. kMismatch, with what was found, when there is
// none: also when the signatures are damaged or missing. kIo and kUnavailable where the store
// cannot be read. REQUIRES: IsDigest(digest), and at least one key.
Result<SignatureReport> VerifySignatures(const Store& store, const std::string& digest,
                                         const std::vector<PublicKey>& keys);
// The same for those who ask for nothing more: before the first blob is pulled.
Status RequireSignature(const Store& store, const std::string& digest,
                        const std::vector<PublicKey>& keys);

}  // namespace moepack::registry
