// Manifests of any kind, for code that copies or keeps them and need not know what they are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/registry/artifact/oci_manifest.h"

namespace moepack::registry {

// Docker's types of what OCI calls a manifest and an index.
inline constexpr const char* kDockerManifestType =
    "application/vnd.docker.distribution.manifest.v2+json";
inline constexpr const char* kDockerListType =
    "application/vnd.docker.distribution.manifest.list.v2+json";

// True for types of OCI and of Docker, whose manifests have the same form.
bool IsManifestType(std::string_view media_type);
bool IsIndexType(std::string_view media_type);
// The type of a document about which only its digest is known: as it states it, else by its form.
// kCorrupt, with a hint, for what is neither a manifest nor an index. The text may be hostile.
Result<std::string> ManifestTypeOf(const std::string& where, std::string_view text);

// An image manifest of any artifact.
struct AnyManifest {
  std::string media_type;     // as stated by itself; "" if it states none
  std::string artifact_type;  // "" for none
  BlobRecord config;
  std::vector<BlobRecord> layers;
};
// The text may be hostile. kUnsupported for an index, for a document without config and layers, and
// for digests other than SHA-256; kCorrupt for anything malformed. Paths are not checked.
Result<AnyManifest> ParseAnyManifest(const std::string& where, std::string_view text);

// Something that a document names by its digest.
struct NamedBlob {
  enum class Kind : uint8_t {
    kBlob,
    kManifest,  // an entry of an index, or one whose media type says so
    kSubject,   // what the document is about, which may be elsewhere
  };
  BlobRecord blob;  // a size of 0 is unknown
  Kind kind = Kind::kBlob;
};
// Every descriptor anywhere in a JSON document, of whatever type it is. The text may be hostile.
// kUnsupported for a digest other than SHA-256, because nobody could say what it leads to.
Result<std::vector<NamedBlob>> FindNamedBlobs(const std::string& where, std::string_view text);

}  // namespace moepack::registry
