// Signs what is published: the manifest of a set and those of its node views.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/registry/sign/keys.h"
#include "manifest/registry/store/store.h"

namespace moepack::registry {

struct SignOptions {
  std::string identity;  // "host/repository"; kInvalidArgument unless CheckIdentity accepts it
  bool views = true;     // also every node view of the set that the store lists
};

// A signature is written in less than a second, so this is time for many other signers of a layout
// (StoreAccess::lock_wait).
inline constexpr std::chrono::seconds kSigningWait{30};

struct SignedManifest {
  std::string tag;  // one of its tags; "" if none is known
  std::string digest;
  bool was_signed = false;  // by this key, with this identity
  std::string signature_tag;
};

// What Sign would sign, the requested manifest first. Nothing is written.
Result<std::vector<SignedManifest>> PlanSigning(const Store& store, const Tagged& manifest,
                                                const PublicKey& key, const SignOptions& options);

// Signs a manifest and its node views, and adds the signatures to the existing ones; a manifest
// already signed by this key with this identity is left as it is. What is signed was read and
// checked against its digest. Signatures that somebody else adds at the same time are not
// overwritten, and everything is read back, in a registry once more when others who wrote meanwhile
// are done: what they overwrote is written again. kUnavailable if that keeps happening, kCorrupt if
// existing signatures cannot be read, or if `manifest` is none.
Result<std::vector<SignedManifest>> Sign(WritableStore& store, const Tagged& manifest,
                                         const PrivateKey& key, const SignOptions& options);

}  // namespace moepack::registry
