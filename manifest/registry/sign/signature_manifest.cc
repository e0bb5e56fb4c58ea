#include "manifest/registry/sign/signature_manifest.h"

#include <nlohmann/json.hpp>

#include "libshard/base/digest.h"
#include "libshard/base/text/base64.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/sign/simple_signing.h"

namespace moepack::registry {
namespace {

constexpr std::string_view kTagStart = "sha256-", kTagEnd = ".sig";

// What makes it a valid image config; the digests are those of the layers, which are not
// compressed.
std::string SignatureConfig(const std::vector<BlobRecord>& layers) {
  Json digests = Json::array();
  for (const BlobRecord& layer : layers) digests.push_back(layer.digest);
  const Json config = {{"architecture", ""},
                       {"os", ""},
                       {"config", Json::object()},
                       {"rootfs", {{"type", "layers"}, {"diff_ids", std::move(digests)}}}};
  return config.dump();
}

}  // namespace

std::string SignatureTag(const std::string& digest) {
  return Cat(kTagStart, HexOf(digest), kTagEnd);
}

bool IsSignatureTag(std::string_view tag) {
  if (!tag.starts_with(kTagStart) || !tag.ends_with(kTagEnd)) return false;
  if (tag.size() < kTagStart.size() + kTagEnd.size()) return false;
  tag.remove_prefix(kTagStart.size());
  tag.remove_suffix(kTagEnd.size());
  return IsDigest(DigestOf(std::string(tag)));
}

Result<OciManifest> ParseSignatureManifest(const std::string& where, std::string_view text) {
  SHARD_TRY(OciManifest oci, ParseImageManifest(where, text, kImageConfigType));
  if (oci.layers.size() <= kMaxSignatures) return oci;
  return Error{Code::kCorrupt, Cat(where, ": signatures: expected at most ", kMaxSignatures,
                                   ", found ", oci.layers.size())};
}

std::vector<StoredSignature> SignaturesOf(const OciManifest& oci) {
  std::vector<StoredSignature> all;
  for (const BlobRecord& layer : oci.layers) {
    const auto text = layer.annotations.find(kSignatureKey);
    if (layer.media_type != kPayloadType || text == layer.annotations.end()) continue;
    all.push_back({layer, DecodeExactBase64(text->second)});
  }
  return all;
}

TextBlob MakeBlob(const char* media_type, std::string text) {
  BlobRecord blob{media_type, DigestOf(Sha256Hex(text)), text.size()};
  return {std::move(blob), std::move(text)};
}

WrittenSignatures WriteSignatures(OciManifest oci) {
  WrittenSignatures written;
  written.config = MakeBlob(kImageConfigType, SignatureConfig(oci.layers));
  oci.config = written.config.blob;
  written.manifest = MakeBlob(kManifestType, WriteOciManifest(oci));
  return written;
}

SignatureBlobs AddSignature(const OciManifest* there, const std::string& payload,
                            std::string_view signature) {
  OciManifest oci;
  oci.artifact_type = "";
  if (there != nullptr) oci = *there;
  SignatureBlobs blobs;
  blobs.payload = MakeBlob(kPayloadType, payload);
  oci.layers.push_back(blobs.payload.blob);
  oci.layers.back().annotations[kSignatureKey] = EncodeBase64(signature);
  WrittenSignatures written = WriteSignatures(std::move(oci));
  blobs.config = std::move(written.config);
  blobs.manifest = std::move(written.manifest);
  return blobs;
}

}  // namespace moepack::registry
