// What a signature of a manifest covers: the "simple signing" payload of cosign and
// containers/image (https://github.com/containers/image/blob/main/docs/containers-signature.5.md).
#pragma once

#include <string>
#include <string_view>

#include "libshard/base/result.h"

namespace moepack::registry {

inline constexpr const char* kPayloadType = "application/vnd.dev.cosign.simplesigning.v1+json";
// Used if neither a registry nor the user says where a manifest is: a name that no registry has.
inline constexpr const char* kLayoutIdentity = "moepack.local/layout";

struct SignedClaim {
  // Where the manifest is according to the signer: "host/repository", without a tag.
  std::string identity;
  std::string digest;  // of the manifest, "sha256:<64 digits>"
};

// kInvalidArgument unless `text` is what follows oci:// in a reference without a tag.
Status CheckIdentity(const std::string& text);

// The bytes that cosign writes for the same claim: one line, a fixed order of keys. REQUIRES:
// CheckIdentity(claim.identity).
std::string WritePayload(const SignedClaim& claim);
// The text may be anybody's; unknown members, such as those of "optional", are ignored. kCorrupt
// for JSON that is not such a payload, kUnsupported if it is of another type.
Result<SignedClaim> ParsePayload(const std::string& where, std::string_view text);

}  // namespace moepack::registry
