// The manifest that holds the signatures of another manifest, under a tag made from its digest, as
// `cosign sign --key` stores them
// (https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/registry/artifact/oci_manifest.h"

namespace moepack::registry {

inline constexpr const char* kSignatureKey = "dev.cosignproject.cosign/signature";
inline constexpr uint64_t kMaxPayload = 64u << 10;  // bytes of one payload
inline constexpr size_t kMaxSignatures = 100;       // in one manifest

// "sha256-<64 digits>.sig". REQUIRES: IsDigest(digest).
std::string SignatureTag(const std::string& digest);
bool IsSignatureTag(std::string_view tag);

// One layer: a payload and a signature of it.
struct StoredSignature {
  BlobRecord payload;
  std::optional<std::string> signature;  // raw bytes; no value if the text is not base64
};

// Parses the manifest of signatures; the text may be hostile. kCorrupt for more than
// kMaxSignatures, otherwise as in ParseImageManifest.
Result<OciManifest> ParseSignatureManifest(const std::string& where, std::string_view text);
// Its layers that are signatures; others are left out.
std::vector<StoredSignature> SignaturesOf(const OciManifest& oci);

// A text under its digest.
struct TextBlob {
  BlobRecord blob;
  std::string text;
};
TextBlob MakeBlob(const char* media_type, std::string text);

// The manifest of signatures with these layers, and its config, which is made anew.
struct WrittenSignatures {
  TextBlob config, manifest;
};
WrittenSignatures WriteSignatures(OciManifest oci);

// Adds a signature of the payload after the existing ones (null: there are none). Layers and
// annotations of others are kept. The config is made anew.
struct SignatureBlobs {
  TextBlob payload, config, manifest;
};
SignatureBlobs AddSignature(const OciManifest* there, const std::string& payload,
                            std::string_view signature);

}  // namespace moepack::registry
