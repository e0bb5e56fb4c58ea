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

bool IsDamage(Code code) {
  return code == Code::kCorrupt || code == Code::kMismatch || code == Code::kNotFound;
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
    if (oci) {
      DescribeListed(*oci, listed);
    } else if (IsDamage(oci.error().code)) {
      listed.problem = oci.error().message;
    } else if (oci.error().code != Code::kUnsupported) {
      return oci.error();
    }
    all.push_back(std::move(listed));
  }
  return all;
}

}  // namespace moepack::registry
