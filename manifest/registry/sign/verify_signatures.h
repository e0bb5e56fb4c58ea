// Checks whether a manifest was signed with a known key.
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

// A signature of this manifest by one of the keys.
struct GoodSignature {
  std::string key_name;  // its file
  std::string key_id;
  KeyType key_type = KeyType::kP256;
  std::string identity;        // where the manifest is according to the signer; not compared
  std::string payload_digest;  // of the signed bytes
};

struct SignatureReport {
  std::string digest;               // of the manifest
  uint64_t found = 0;               // signatures, good or not
  std::vector<GoodSignature> good;  // at least one
};

// The manifest with the signatures of another one.
struct FoundSignatures {
  std::string digest;  // its own
  OciManifest oci;
};
// That of `digest`; no value if there is none.
Result<std::optional<FoundSignatures>> FindSignatures(const Store& store,
                                                      const std::string& digest);

// A signature in `oci` is only trusted after a key vouches for its bytes. Every signature is
// checked; one good one is enough. kMismatch, with what was found, if there is none, also if the
// signatures are corrupt or missing. kIo and kUnavailable if the store cannot be read. REQUIRES:
// IsDigest(digest), and at least one key.
Result<SignatureReport> VerifySignatures(const Store& store, const std::string& digest,
                                         const std::vector<PublicKey>& keys);

}  // namespace moepack::registry
