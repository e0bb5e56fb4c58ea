#include "manifest/registry/artifact/oci_manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/files/inside_path.h"
#include "libshard/base/limits.h"
#include "libshard/base/text/json_values.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"
#include "manifest/registry/artifact/reference.h"

namespace moepack::registry {
namespace {

constexpr size_t kMaxOciValues = 1u << 18;  // of a manifest: some ten thousand layers
constexpr size_t kMaxComponent = 255;

Json AnnotationsToJson(const Annotations& annotations) {
  Json out = Json::object();
  for (const auto& [key, value] : annotations) out[key] = value;
  return out;
}

Result<Annotations> AnnotationsFromJson(const JsonFields& fields) {
  Annotations out;
  if (!fields.Has("annotations")) return out;
  SHARD_TRY(const Json* object, fields.Object("annotations"));
  for (const auto& [key, value] : object->items()) {
    if (!value.is_string()) {
      return Error{Code::kCorrupt, Cat(fields.where(), ": annotation ", Quoted(key),
                                       ": expected text, found ", DescribeJson(value))};
    }
    out[key] = value.get<std::string>();
  }
  return out;
}

Status CheckDigest(const JsonFields& fields, const std::string& digest) {
  if (IsDigest(digest)) return Ok();
  const size_t colon = digest.find(':');
  const bool other = colon != std::string::npos && colon > 0 && !digest.starts_with("sha256:");
  return Error{other ? Code::kUnsupported : Code::kCorrupt,
               Cat(fields.where(), ": digest: expected sha256: and 64 hexadecimal digits, found ",
                   Quoted(digest))};
}

bool IsGoodPath(const std::string& path) {
  if (!IsSafeRelativePath(path) || HasControlCharacter(path) || path[0] == '~') return false;
  const std::vector<std::string> parts = Split(path, '/');
  return std::all_of(parts.begin(), parts.end(),
                     [](const std::string& part) { return part.size() <= kMaxComponent; });
}

// Title and path have the same meaning; a layer that has only one of them gets the other.
Status SettlePath(const std::string& where, BlobRecord& layer) {
  const std::string title = AnnotationOf(layer.annotations, kTitleKey);
  const std::string named = AnnotationOf(layer.annotations, kPathKey);
  const std::string path = named.empty() ? title : named;
  if (path.empty()) return Ok();
  if (!title.empty() && title != path) {
    return Error{Code::kCorrupt, Cat(where, ": ", kTitleKey, ": expected ", Quoted(path), " as in ",
                                     kPathKey, ", found ", Quoted(title))};
  }
  if (!IsGoodPath(path)) {
    return Error{
        Code::kCorrupt,
        Cat(where, ": path: expected one that stays inside the output, found ", Quoted(path))};
  }
  layer.annotations[kPathKey] = layer.annotations[kTitleKey] = path;
  return Ok();
}

// No two layers may be the same file, and none may be a parent directory of another.
Status CheckPathsApart(const std::string& where, const std::vector<BlobRecord>& layers) {
  std::map<std::string, size_t> files, directories;
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string path = Lower(layers[i].path());
    if (path.empty()) continue;
    const auto [other, is_new] = files.emplace(path, i);
    if (!is_new) {
      return Error{Code::kCorrupt,
                   Cat(where, ": layer ", i,
                       ": path: expected one that no other "
                       "layer has, found ",
                       Quoted(layers[i].path()), ", which is also that of layer ", other->second)};
    }
    for (size_t end = path.find('/'); end != path.npos; end = path.find('/', end + 1))
      directories.emplace(path.substr(0, end), i);
  }
  for (const auto& [path, i] : files) {
    const auto directory = directories.find(path);
    if (directory == directories.end()) continue;
    return Error{Code::kCorrupt, Cat(where, ": layer ", i, ": path: expected a file, found ",
                                     Quoted(layers[i].path()), ", which is a directory of layer ",
                                     directory->second)};
  }
  return Ok();
}

Status CheckMediaType(const JsonFields& fields, const char* key, const char* expected) {
  SHARD_TRY(const std::string found, fields.StringOr(key, ""));
  if (found == expected) return Ok();
  return Error{Code::kUnsupported,
               Cat(fields.where(), ": ", key, ": expected ", expected, ", found ",
                   found.empty() ? "none" : Quoted(found)),
               "moepack reads the ModelPack manifests that `moepack publish` writes"};
}

Result<Json> ParseManifestJson(const std::string& where, std::string_view text) {
  if (text.size() > kMaxOciManifest) {
    return Error{Code::kCorrupt, Cat(where, ": manifest size: expected at most ", kMaxOciManifest,
                                     " bytes, found ", text.size())};
  }
  return ParseJsonObject(where, text, kMaxOciValues);
}

// `artifact_type` null: any.
Result<OciManifest> ParseManifestOf(const char* artifact_type, const char* config_type,
                                    const std::string& where, std::string_view text) {
  SHARD_TRY(const Json document, ParseManifestJson(where, text));
  const JsonFields fields(document, where);
  SHARD_TRY(const uint64_t version, fields.Unsigned("schemaVersion"));
  if (version != 2) return fields.Wrong("schemaVersion", "2");
  SHARD_CHECK(CheckMediaType(fields, "mediaType", kManifestType));
  if (artifact_type != nullptr) SHARD_CHECK(CheckMediaType(fields, "artifactType", artifact_type));
  OciManifest oci;
  SHARD_TRY(oci.artifact_type, fields.StringOr("artifactType", ""));
  SHARD_TRY(oci.annotations, AnnotationsFromJson(fields));
  SHARD_TRY(const Json* config, fields.Object("config"));
  SHARD_TRY(oci.config, BlobFromJson(Cat(where, ": config"), *config));
  SHARD_CHECK(
      CheckMediaType(JsonFields(*config, Cat(where, ": config")), "mediaType", config_type));
  SHARD_TRY(oci.layers, LayersFromJson(fields));
  for (size_t i = 0; i < oci.layers.size(); ++i)
    SHARD_CHECK(SettlePath(Cat(where, ": layer ", i), oci.layers[i]));
  SHARD_CHECK(CheckPathsApart(where, oci.layers));
  return oci;
}

}  // namespace

std::string AnnotationOf(const Annotations& annotations, const std::string& key) {
  const auto found = annotations.find(key);
  return found == annotations.end() ? "" : found->second;
}

uint64_t OciManifest::layer_bytes() const {
  uint64_t bytes = 0;
  for (const BlobRecord& layer : layers) bytes += layer.size;
  return bytes;
}

Json BlobToJson(const BlobRecord& blob) {
  Json out = {{"mediaType", blob.media_type}, {"digest", blob.digest}, {"size", blob.size}};
  if (!blob.annotations.empty()) out["annotations"] = AnnotationsToJson(blob.annotations);
  return out;
}

Result<BlobRecord> BlobFromJson(const std::string& where, const Json& value) {
  if (!value.is_object()) {
    return Error{Code::kCorrupt, Cat(where, ": expected an object, found ", DescribeJson(value))};
  }
  const JsonFields fields(value, where);
  BlobRecord blob;
  SHARD_TRY(blob.media_type, fields.String("mediaType"));
  SHARD_TRY(blob.digest, fields.String("digest"));
  SHARD_CHECK(CheckDigest(fields, blob.digest));
  SHARD_TRY(blob.size, fields.Unsigned("size"));
  if (blob.size > kMaxFileBytes) return fields.Wrong("size", "the size of a file");
  SHARD_TRY(blob.annotations, AnnotationsFromJson(fields));
  return blob;
}

Result<std::vector<BlobRecord>> LayersFromJson(const JsonFields& manifest) {
  SHARD_TRY(const Json* list, manifest.Array("layers"));
  std::vector<BlobRecord> layers;
  uint64_t bytes = 0;
  for (const Json& layer : *list) {
    const std::string where = Cat(manifest.where(), ": layer ", layers.size());
    SHARD_TRY(BlobRecord blob, BlobFromJson(where, layer));
    if (blob.size > kMaxFileBytes - bytes) {
      return Error{Code::kCorrupt, Cat(where, ": size: expected at most ", kMaxFileBytes - bytes,
                                       " bytes after the other layers, found ", blob.size)};
    }
    bytes += blob.size;
    layers.push_back(std::move(blob));
  }
  return layers;
}

std::string WriteOciManifest(const OciManifest& oci) {
  Json out = {{"schemaVersion", 2}, {"mediaType", kManifestType}};
  if (!oci.artifact_type.empty()) out["artifactType"] = oci.artifact_type;
  out["config"] = BlobToJson(oci.config);
  Json& layers = out["layers"] = Json::array();
  for (const BlobRecord& layer : oci.layers) layers.push_back(BlobToJson(layer));
  if (!oci.annotations.empty()) out["annotations"] = AnnotationsToJson(oci.annotations);
  return out.dump();
}

Result<OciManifest> ParseOciManifest(const std::string& where, std::string_view text) {
  return ParseManifestOf(kArtifactType, kConfigType, where, text);
}

Result<OciManifest> ParseImageManifest(const std::string& where, std::string_view text,
                                       const char* config_type) {
  return ParseManifestOf(nullptr, config_type, where, text);
}

}  // namespace moepack::registry
