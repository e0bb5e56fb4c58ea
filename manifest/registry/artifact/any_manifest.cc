#include "manifest/registry/artifact/any_manifest.h"

#include <nlohmann/json.hpp>

#include "libshard/base/text/json_values.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/reference.h"

namespace moepack::registry {
namespace {

constexpr const char* kOldArtifactType = "application/vnd.oci.artifact.manifest.v1+json";
constexpr size_t kMaxAnyValues = 1u << 18;
constexpr uint64_t kMaxAnyText = 16u << 20;  // bytes: for index.json, the largest of them

Result<Json> ParseDocument(const std::string& where, std::string_view text, uint64_t limit) {
  if (text.size() > limit) {
    return Error{Code::kCorrupt,
                 Cat(where, ": size: expected at most ", limit, " bytes, found ", text.size())};
  }
  return ParseJsonObject(where, text, kMaxAnyValues);
}

Status CheckIsNoIndex(const std::string& where, const JsonFields& fields,
                      const std::string& media_type) {
  if (!IsIndexType(media_type) && !fields.Has("manifests")) return Ok();
  return Error{Code::kUnsupported, Cat(where, ": expected a manifest, found an index of manifests"),
               "name one of its manifests by its digest: REF@sha256:..."};
}

// Looks for descriptors below `value`, which is under `key` of the object around it.
Status Collect(const std::string& where, const std::string& key, const Json& value,
               std::vector<NamedBlob>& found) {
  if (value.is_array()) {
    for (const Json& one : value) SHARD_CHECK(Collect(where, key, one, found));
    return Ok();
  }
  if (!value.is_object()) return Ok();
  const std::string digest = TextMember(value, "digest");
  const std::string media_type = TextMember(value, "mediaType");
  if (IsDigest(digest)) {
    const auto size = value.find("size");
    const bool known = size != value.end() && size->is_number_unsigned();
    NamedBlob named{{media_type, digest, known ? size->get<uint64_t>() : 0}};
    if (key == "manifests" || IsManifestType(media_type) || IsIndexType(media_type))
      named.kind = NamedBlob::Kind::kManifest;
    if (key == "subject") named.kind = NamedBlob::Kind::kSubject;
    found.push_back(std::move(named));
  } else if (!digest.empty()) {
    const bool other = digest.find(':') != std::string::npos && !digest.starts_with("sha256:");
    return Error{
        other ? Code::kUnsupported : Code::kCorrupt,
        Cat(where, ": digest: expected sha256: and 64 hexadecimal digits, found ", Quoted(digest))};
  }
  for (const auto& [member, inner] : value.items())
    SHARD_CHECK(Collect(where, member, inner, found));
  return Ok();
}

}  // namespace

bool IsIndexType(std::string_view media_type) {
  return media_type == kIndexType || media_type == kDockerListType;
}

bool IsManifestType(std::string_view media_type) {
  return media_type == kManifestType || media_type == kDockerManifestType ||
         media_type == kOldArtifactType;
}

Result<std::string> ManifestTypeOf(const std::string& where, std::string_view text) {
  const auto document = ParseDocument(where, text, kMaxOciManifest);
  const std::string own = document ? TextMember(*document, "mediaType") : "";
  if (IsManifestType(own) || IsIndexType(own)) return own;
  if (document && own.empty()) {
    if (document->contains("manifests")) return std::string(kIndexType);
    if (document->contains("config") && document->contains("layers"))
      return std::string(kManifestType);
  }
  return Error{Code::kCorrupt,
               Cat(where, ": expected a manifest or an index, found ",
                   own.empty() ? "something else" : Cat("a document of type ", Quoted(own))),
               "name a tag, or the digest of a manifest, which `moepack ls` shows"};
}

Result<AnyManifest> ParseAnyManifest(const std::string& where, std::string_view text) {
  SHARD_TRY(const Json document, ParseDocument(where, text, kMaxOciManifest));
  const JsonFields fields(document, where);
  SHARD_TRY(const uint64_t version, fields.Unsigned("schemaVersion"));
  if (version != 2) return fields.Wrong("schemaVersion", "2");
  AnyManifest manifest;
  SHARD_TRY(manifest.media_type, fields.StringOr("mediaType", ""));
  SHARD_TRY(manifest.artifact_type, fields.StringOr("artifactType", ""));
  SHARD_CHECK(CheckIsNoIndex(where, fields, manifest.media_type));
  if (!fields.Has("config") || !fields.Has("layers")) {
    return Error{Code::kUnsupported,
                 Cat(where, ": expected a manifest with config and layers, found one of type ",
                     manifest.media_type.empty() ? "none" : Quoted(manifest.media_type))};
  }
  SHARD_TRY(const Json* config, fields.Object("config"));
  SHARD_TRY(manifest.config, BlobFromJson(Cat(where, ": config"), *config));
  SHARD_TRY(manifest.layers, LayersFromJson(fields));
  return manifest;
}

Result<std::vector<NamedBlob>> FindNamedBlobs(const std::string& where, std::string_view text) {
  SHARD_TRY(const Json document, ParseDocument(where, text, kMaxAnyText));
  std::vector<NamedBlob> found;
  for (const auto& [member, inner] : document.items())
    SHARD_CHECK(Collect(where, member, inner, found));
  return found;
}

}  // namespace moepack::registry
