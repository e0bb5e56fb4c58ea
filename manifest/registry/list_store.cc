#include "manifest/registry/list_store.h"

#include "libshard/base/text/text.h"
#include "manifest/registry/open_set.h"
#include "manifest/registry/sign/signature_manifest.h"

namespace moepack::registry {
namespace {

void DescribeListed(const OciManifest& oci, ListedManifest& listed) {
  listed.is_set = AnnotationOf(oci.annotations, kSchemaKey) == kSetSchema;
  if (!listed.is_set) return;
  listed.is_view = !AnnotationOf(oci.annotations, kViewGroupKey).empty();
  const std::string groups = AnnotationOf(oci.annotations, kGroupsKey);
  if (!groups.empty()) listed.groups = Split(groups, ',');
  listed.overlay_version = AnnotationOf(oci.annotations, kOverlayVersionKey);
  listed.files = oci.layers.size();
  listed.bytes = oci.layer_bytes();
}

}  // namespace

Result<std::vector<ListedManifest>> ListStore(const Store& store) {
  std::vector<ListedManifest> all;
  SHARD_TRY(const std::vector<Tagged> tags, store.List());
  for (const Tagged& entry : tags) {
    ListedManifest listed;
    listed.tag = entry.tag;
    listed.digest = entry.manifest.digest;
    listed.is_signature = IsSignatureTag(entry.tag);
    if (listed.is_signature) {
      all.push_back(std::move(listed));
      continue;
    }
    const auto oci = OpenListed(store, entry.manifest);
    if (!oci && oci.error().code != Code::kUnsupported) return oci.error();
    if (oci) DescribeListed(*oci, listed);
    all.push_back(std::move(listed));
  }
  return all;
}

}  // namespace moepack::registry
