// OCI image manifests as records: written as canonical JSON, and read from hostile JSON.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"

namespace moepack::registry {

inline constexpr const char* kManifestType = "application/vnd.oci.image.manifest.v1+json";
inline constexpr const char* kIndexType = "application/vnd.oci.image.index.v1+json";
// CNCF ModelPack, https://github.com/modelpack/model-spec
inline constexpr const char* kArtifactType = "application/vnd.cncf.model.manifest.v1+json";
inline constexpr const char* kConfigType = "application/vnd.cncf.model.config.v1+json";
inline constexpr const char* kWeightType = "application/vnd.cncf.model.weight.v1.raw";
inline constexpr const char* kSmallFileType = "application/vnd.cncf.model.weight.config.v1.raw";
inline constexpr const char* kDocType = "application/vnd.cncf.model.doc.v1.raw";
// The config of an image that programs run, and of anything that borrows that form.
inline constexpr const char* kImageConfigType = "application/vnd.oci.image.config.v1+json";

inline constexpr const char* kTitleKey = "org.opencontainers.image.title";
inline constexpr const char* kPathKey = "org.cncf.model.filepath";

inline constexpr uint64_t kMaxOciManifest = 4u << 20;  // bytes; registries accept no more

using Annotations = std::map<std::string, std::string>;
// "" for a missing key.
std::string AnnotationOf(const Annotations& annotations, const std::string& key);

// What OCI calls a descriptor: a blob, and statements about it.
struct BlobRecord {
  std::string media_type;
  std::string digest;  // "sha256:<64 digits>"
  uint64_t size = 0;   // bytes
  Annotations annotations = {};
  // Where the blob is in a distribution; "" for a layer that is not a file of one.
  std::string path() const { return AnnotationOf(annotations, kPathKey); }
};

struct OciManifest {
  std::string artifact_type = kArtifactType;  // "" for none
  BlobRecord config;
  std::vector<BlobRecord> layers;
  Annotations annotations;
  uint64_t layer_bytes() const;
};

// One line without spaces, with a fixed order of keys: equal records give equal bytes.
std::string WriteOciManifest(const OciManifest& oci);

// Parses the manifest of a ModelPack artifact; the text may be hostile. kUnsupported for other
// artifacts and for digests other than SHA-256, kCorrupt for anything malformed. Paths are
// relative, stay inside the output, and no two of them name the same file, even ignoring case.
// Layers that are not files of a distribution are kept.
Result<OciManifest> ParseOciManifest(const std::string& where, std::string_view text);
// The same for an image manifest with a config of this type, whatever artifact it claims to be.
Result<OciManifest> ParseImageManifest(const std::string& where, std::string_view text,
                                       const char* config_type);

// One descriptor of a manifest or of index.json.
Json BlobToJson(const BlobRecord& blob);
Result<BlobRecord> BlobFromJson(const std::string& where, const Json& value);
// The layers of a manifest. kCorrupt if a file could not have the size of all of them together.
Result<std::vector<BlobRecord>> LayersFromJson(const JsonFields& manifest);

}  // namespace moepack::registry
