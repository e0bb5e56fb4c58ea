// What a signature of a manifest signs: the "simple signing" payload of cosign and containers/image
// (https://github.com/containers/image/blob/main/docs/containers-signature.5.md).
#pragma once

#include <string>
#include <string_view>

#include "libshard/base/result.h"

namespace moepack::registry {

inline constexpr const char* kPayloadType = "application/vnd.dev.cosign.simplesigning.v1+json";
// Where no registry says where a manifest lives, nor the user: a name that no registry has.
inline constexpr const char* kLayoutIdentity = "moepack.local/layout";

struct SignedClaim {
  // Where the signer says that the manifest lives: "host/repository", without a tag.
  std::string identity;
  std::string digest;  // of the manifest, "sha256:<64 digits>"
};

// kInvalidArgument unless `text` is what stands behind oci:// in a reference without a tag.
Status CheckIdentity(const std::string& text);

// The bytes that cosign writes for the same claim: one line, a fixed order of keys. REQUIRES:
// CheckIdentity(claim.identity).
std::string WritePayload(const SignedClaim& claim);
// Reads what anybody wrote; members that nobody knows, as those of "optional", say nothing.
// kCorrupt for JSON that is no such payload, kUnsupported when it is of another type.
Result<SignedClaim> ParsePayload(const std::string& where, std::string_view text);

}  // namespace moepack::registry
