#include "manifest/registry/artifact/distribution_parts.h"

#include "libshard/base/digest.h"
#include "manifest/document/manifest_json.h"
#include "manifest/registry/artifact/reference.h"

namespace moepack::registry {
namespace {

constexpr uint64_t kMaxReadme = 1u << 20;

SmallFile SmallFileOf(std::string_view text) { return {DigestOf(Sha256Hex(text)), text.size()}; }

}  // namespace

Result<DistributionParts> ReadParts(const SourceTree& tree) {
  DistributionParts parts;
  SHARD_TRY(parts.text, manifest::ReadManifestText(tree));
  SHARD_TRY(parts.manifest,
            manifest::ParseManifest(tree.NameOf(manifest::kManifestFile), parts.text));
  parts.files.distribution = SmallFileOf(parts.text);
  SHARD_TRY(const bool readme, tree.Has(manifest::kReadmeFile));
  if (!readme) return parts;
  SHARD_TRY(parts.readme, tree.ReadText(manifest::kReadmeFile, kMaxReadme));
  if (!parts.readme.empty()) parts.files.readme = SmallFileOf(parts.readme);
  return parts;
}

Artifact MakeArtifact(const manifest::Manifest& manifest, OciManifest oci) {
  Artifact artifact;
  artifact.config = ConfigText(manifest, oci.layers);
  const SmallFile config = SmallFileOf(artifact.config);
  oci.config = {kConfigType, config.digest, config.size};
  artifact.text = WriteOciManifest(oci);
  const SmallFile whole = SmallFileOf(artifact.text);
  artifact.blob = {kManifestType, whole.digest, whole.size};
  artifact.oci = std::move(oci);
  return artifact;
}

}  // namespace moepack::registry
