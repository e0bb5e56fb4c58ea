#include "manifest/registry/open_set.h"

#include <algorithm>

#include "libshard/base/text/text.h"
#include "manifest/document/manifest_json.h"

namespace moepack::registry {
namespace {

constexpr std::string_view kOurKeys = "org.moepack.";

// Keys of OCI with which `publish` describes the model.
constexpr std::string_view kModelKeys[] = {
    "org.opencontainers.image.version", "org.opencontainers.image.revision",
    "org.opencontainers.image.licenses", "org.opencontainers.image.created"};

bool IsOurs(std::string_view key) {
  return key.starts_with(kOurKeys) ||
         std::find(std::begin(kModelKeys), std::end(kModelKeys), key) != std::end(kModelKeys);
}

std::string QuotedOrNone(const std::string& text) { return text.empty() ? "" : Quoted(text); }

// Compares the annotations of both sides that describe the distribution.
Status CompareAnnotations(const std::string& where, const Annotations& expected,
                          const Annotations& found) {
  for (const Annotations* side : {&expected, &found}) {
    for (const auto& [key, unused] : *side) {
      const std::string wanted = AnnotationOf(expected, key);
      const std::string there = AnnotationOf(found, key);
      if (key == kCalibratedKey && there.empty()) continue;  // of an earlier version
      if (IsOurs(key) && wanted != there)
        return Disagrees(where, key, QuotedOrNone(wanted), QuotedOrNone(there));
    }
  }
  return Ok();
}

Status CompareLayer(const std::string& where, const BlobRecord& expected, const BlobRecord& found) {
  const std::string layer = Cat(where, ": layer ", Quoted(expected.path()));
  if (found.digest != expected.digest)
    return Disagrees(layer, "digest", Quoted(expected.digest), Quoted(found.digest));
  if (found.size != expected.size)
    return Disagrees(layer, "size", Quoted(Cat(expected.size)), Quoted(Cat(found.size)));
  if (found.media_type != expected.media_type)
    return Disagrees(layer, "mediaType", Quoted(expected.media_type), Quoted(found.media_type));
  return CompareAnnotations(layer, expected.annotations, found.annotations);
}

// Every layer that the distribution states exists, and no others.
Status CompareLayers(const std::string& where, const std::vector<BlobRecord>& expected,
                     const std::vector<BlobRecord>& found) {
  std::map<std::string, const BlobRecord*> by_path;
  for (const BlobRecord& layer : found) by_path[layer.path()] = &layer;
  for (const BlobRecord& layer : expected) {
    const auto there = by_path.find(layer.path());
    if (there == by_path.end()) {
      return Error{Code::kCorrupt,
                   Cat(where, ": layer ", Quoted(layer.path()), ": expected one as ",
                       manifest::kManifestFile, " says, found none")};
    }
    SHARD_CHECK(CompareLayer(where, layer, *there->second));
    by_path.erase(there);
  }
  for (const BlobRecord& layer : found) {
    const std::string role = AnnotationOf(layer.annotations, kRoleKey);
    if (!by_path.contains(layer.path()) || !IsKnownRole(role)) continue;
    return Error{Code::kCorrupt, Cat(where, ": layer ", Quoted(layer.path()),
                                     ": expected a file "
                                     "that ",
                                     manifest::kManifestFile,
                                     " lists, found one that it "
                                     "does not")};
  }
  return Ok();
}

// README.md is the only file that distribution.json does not vouch for.
SmallFiles FilesBeside(const OciManifest& oci) {
  SmallFiles files{{oci.layers[0].digest, oci.layers[0].size}, std::nullopt};
  for (const BlobRecord& layer : oci.layers) {
    const bool readme = layer.path() == manifest::kReadmeFile &&
                        AnnotationOf(layer.annotations, kRoleKey) == kDocRole;
    if (readme) files.readme = SmallFile{layer.digest, layer.size};
  }
  return files;
}

Status CheckFirstLayer(const std::string& where, const OciManifest& oci) {
  const std::string schema = AnnotationOf(oci.annotations, kSchemaKey);
  if (schema != kSetSchema) {
    return Error{Code::kUnsupported,
                 Cat(where, ": ", kSchemaKey, ": expected ", kSetSchema, ", found ",
                     schema.empty() ? "none" : Quoted(schema)),
                 "moepack reads the ModelPack manifests that `moepack publish` writes"};
  }
  const std::string path = oci.layers.empty() ? "" : oci.layers[0].path();
  if (path == manifest::kManifestFile) return Ok();
  return Error{Code::kCorrupt, Cat(where, ": layer 0: expected ", manifest::kManifestFile,
                                   ", found ", path.empty() ? "none" : Quoted(path))};
}

Result<std::optional<uint32_t>> ViewGroup(const std::string& where, const OpenedSet& set) {
  const std::string text = AnnotationOf(set.oci.annotations, kViewGroupKey);
  if (text.empty()) return std::optional<uint32_t>();
  const std::vector<uint32_t> groups = GroupsThere(set.manifest);
  const auto found = std::find_if(groups.begin(), groups.end(),
                                  [&](uint32_t group) { return GroupText(group) == text; });
  if (found != groups.end()) return std::optional(*found);
  return Error{Code::kCorrupt, Cat(where, ": ", kViewGroupKey, ": expected a group of ",
                                   manifest::kManifestFile, ", found ", Quoted(text))};
}

Status CompareWithDistribution(const std::string& where, const OpenedSet& set) {
  const SmallFiles files = FilesBeside(set.oci);
  const std::string view_of = AnnotationOf(set.oci.annotations, kViewOfKey);
  const OciManifest expected = set.view_group
                                   ? DescribeView(set.manifest, files, *set.view_group, view_of)
                                   : DescribeSet(set.manifest, files);
  SHARD_CHECK(CompareAnnotations(where, expected.annotations, set.oci.annotations));
  return CompareLayers(where, expected.layers, set.oci.layers);
}

}  // namespace

Status CheckIsManifest(const Store& store, const BlobRecord& blob) {
  if (blob.media_type == kManifestType) return Ok();
  return Error{Code::kUnsupported, Cat(store.NameOf(blob), ": mediaType: expected ", kManifestType,
                                       ", found ", Quoted(blob.media_type))};
}

Result<OciManifest> OpenListed(const Store& store, const BlobRecord& blob) {
  SHARD_CHECK(CheckIsManifest(store, blob));
  SHARD_TRY(const std::string text, store.ReadManifest(blob));
  return ParseOciManifest(store.NameOf(blob), text);
}

Result<OpenedManifest> OpenManifest(const Store& store, const Reference& reference) {
  BlobRecord blob{kManifestType, reference.digest};
  if (reference.digest.empty()) {
    SHARD_TRY(blob, store.FindTag(reference.tag_or_default()));
  }
  OpenedManifest opened;
  opened.digest = blob.digest;
  SHARD_TRY(opened.oci, OpenListed(store, blob));
  return opened;
}

Result<OpenedSet> OpenSet(const Store& store, const Reference& reference) {
  SHARD_TRY(OpenedManifest opened, OpenManifest(store, reference));
  OpenedSet set;
  set.digest = std::move(opened.digest);
  set.oci = std::move(opened.oci);
  const std::string where = store.NameOf({"", set.digest});
  SHARD_CHECK(CheckFirstLayer(where, set.oci));
  SHARD_TRY(const std::string config, store.ReadBlob(set.oci.config, kMaxOciManifest));
  SHARD_CHECK(CheckConfig(store.NameOf(set.oci.config), config, set.oci.layers));
  const BlobRecord& first = set.oci.layers[0];
  SHARD_TRY(set.distribution_text, store.ReadBlob(first, manifest::kMaxManifestBytes));
  SHARD_TRY(set.manifest, manifest::ParseManifest(store.NameOf(first), set.distribution_text));
  SHARD_TRY(set.view_group, ViewGroup(where, set));
  SHARD_CHECK(CompareWithDistribution(where, set));
  SHARD_CHECK(CompareConfig(store.NameOf(set.oci.config), config, set.manifest));
  return set;
}

}  // namespace moepack::registry
