#include "manifest/registry/inspect.h"

#include <algorithm>

#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/describe_set.h"
#include "manifest/registry/node_groups.h"
#include "manifest/registry/pull_selection.h"
#include "manifest/registry/sign/signature_manifest.h"

namespace moepack::registry {
namespace {

std::vector<Inspection::Part> PartsOf(const std::vector<BlobRecord>& layers) {
  std::vector<Inspection::Part> parts;
  for (const BlobRecord& layer : layers) {
    const std::string role = AnnotationOf(layer.annotations, kRoleKey);
    auto part = std::find_if(parts.begin(), parts.end(),
                             [&](const Inspection::Part& one) { return one.role == role; });
    if (part == parts.end()) part = parts.insert(part, {role});
    ++part->files;
    part->bytes += layer.size;
  }
  return parts;
}

Result<std::vector<Inspection::Node>> NodesOf(const std::string& where, const OciManifest& oci) {
  SHARD_TRY(const std::vector<uint32_t> groups, GroupsOf(where, oci));
  const OverlayChoice overlay = CurrentOverlay(oci);
  const uint64_t shared = BytesOf(SelectLayers(oci.layers, {}, overlay));
  std::vector<Inspection::Node> nodes;
  for (const uint32_t group : groups) {
    const std::vector<BlobRecord> layers = SelectLayers(oci.layers, {group}, overlay);
    const uint64_t bytes = BytesOf(layers);
    nodes.push_back({group, layers.size(), bytes, bytes - shared});
  }
  return nodes;
}

Status ReadOurs(const Store& store, const OciManifest& oci, Inspection& found) {
  found.annotations = oci.annotations;
  SHARD_TRY(found.config, store.ReadBlob(oci.config, kMaxOciManifest));
  SHARD_CHECK(CheckConfig(store.NameOf(oci.config), found.config, oci.layers));
  if (AnnotationOf(oci.annotations, kSchemaKey) != kSetSchema) return Ok();
  found.kind = IsSet(oci) ? Inspection::Kind::kSet : Inspection::Kind::kView;
  SHARD_TRY(found.nodes, NodesOf(store.NameOf(found.manifest.blob), oci));
  return Ok();
}

Status ReadManifestOf(const Store& store, Inspection& found) {
  const std::string where = store.NameOf(found.manifest.blob);
  const auto oci = ParseOciManifest(where, found.manifest.text);
  if (!oci && oci.error().code != Code::kUnsupported) return oci.error();
  if (oci) {
    found.artifact_type = kArtifactType;
    found.parts = PartsOf(oci->layers);
    return ReadOurs(store, *oci, found);
  }
  SHARD_TRY(const AnyManifest any, ParseAnyManifest(where, found.manifest.text));
  found.artifact_type = any.artifact_type;
  found.parts = PartsOf(any.layers);
  return Ok();
}

Status FindTagsOf(const Store& store, Inspection& found) {
  SHARD_TRY(const std::vector<Tagged> listed, store.List());
  for (const Tagged& one : listed) {
    if (one.manifest.digest == found.manifest.blob.digest && !one.tag.empty())
      found.tags.push_back(one.tag);
  }
  return Ok();
}

Status CountSignatures(const Store& store, Inspection& found) {
  SHARD_TRY(found.signatures, FindStoredSignatures(store, found.manifest.blob.digest));
  if (!found.signatures) return Ok();
  const std::string where = store.NameOf(found.signatures->blob);
  SHARD_TRY(const OciManifest oci, ParseSignatureManifest(where, found.signatures->text));
  found.signature_count = SignaturesOf(oci).size();
  return Ok();
}

}  // namespace

Result<Inspection> Inspect(const Reference& reference, const StoreAccess& access) {
  SHARD_TRY(const StorePtr store, OpenStore(reference, access));
  Inspection found;
  SHARD_TRY(found.manifest, FindStored(*store, reference));
  if (IsIndexType(found.manifest.blob.media_type)) {
    found.kind = Inspection::Kind::kIndex;
  } else {
    SHARD_CHECK(ReadManifestOf(*store, found));
  }
  // Files have none.
  if (reference.kind != Reference::Kind::kFiles) SHARD_CHECK(FindTagsOf(*store, found));
  SHARD_CHECK(CountSignatures(*store, found));
  return found;
}

}  // namespace moepack::registry
