#include "manifest/registry/tag.h"

#include <algorithm>

#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/describe_set.h"
#include "manifest/registry/store/oci_layout.h"
#include "manifest/registry/store_plan.h"
#include "manifest/registry/stored_manifest.h"

namespace moepack::registry {
namespace {

Result<StorePlan> PlanTags(const Store& store, const Reference& reference,
                           const std::vector<std::string>& tags, bool views) {
  SHARD_TRY(const StoredManifest stored, FindStored(store, reference));
  SHARD_TRY(const bool with_views, WithViews(store.NameOf(stored.blob), stored.text, views));
  std::vector<StoredView> of_set;
  if (with_views) {
    SHARD_TRY(std::vector<StoredView> found, FindViews(store, stored.blob.digest));
    of_set = OneOfEachGroup(std::move(found), reference.tag_or_default());
  }
  StorePlan plan;
  for (const std::string& tag : tags) {
    plan.AddTag({tag, ""}, stored.blob, stored.text);
    for (const StoredView& view : of_set) {
      SHARD_TRY(std::string view_tag, ViewTag(tag, view.group));
      plan.AddTag({std::move(view_tag), "", view.group}, view.manifest.blob, view.manifest.text);
    }
  }
  SHARD_CHECK(CheckTagsApart(plan));
  return plan;
}

Status CheckRemovable(const Reference& reference) {
  if (reference.kind != Reference::Kind::kLayout) {
    return Error{Code::kUnsupported,
                 "--remove: expected a layout:DIR:tag, found another kind of reference",
                 "registries remove manifests with all of their tags and not single tags: use the "
                 "tools of the registry"};
  }
  if (!reference.tag.empty() && reference.digest.empty()) return Ok();
  return Error{
      Code::kInvalidArgument,
      Cat("--remove: expected a tag, found ", reference.digest.empty() ? "none" : reference.digest),
      "write layout:DIR:tag"};
}

}  // namespace

Result<StoreReport> AddTags(const Reference& reference, const std::vector<std::string>& tags,
                            const PutOptions& options) {
  // A missing place is not created.
  SHARD_TRY(const StorePtr before, OpenStore(reference, options.access));
  if (options.dry_run) {
    SHARD_TRY(StorePlan plan, PlanTags(*before, reference, tags, options.views));
    StoreReport report = StartReport(plan);
    SHARD_CHECK(LookAtStore(*before, options, plan, report));
    return report;
  }
  SHARD_TRY(const std::shared_ptr<WritableStore> store, OpenWritable(reference, options.access));
  SHARD_TRY(StorePlan plan, PlanTags(*store, reference, tags, options.views));
  StoreReport report = StartReport(plan);
  SHARD_CHECK(PutPlan(*store, {}, options, plan, report));
  return report;
}

Result<RemovedTags> RemoveTags(const Reference& reference, const PutOptions& options) {
  SHARD_CHECK(CheckRemovable(reference));
  SHARD_TRY(OciLayout layout, options.dry_run ? OciLayout::Open(reference.place)
                                              : OciLayout::OpenLocked(reference.place));
  SHARD_TRY(const BlobRecord manifest, layout.FindTag(reference.tag));
  RemovedTags removed;
  removed.tags.push_back({reference.tag, manifest});
  std::vector<StoredView> views;
  if (options.views && manifest.media_type == kManifestType) {
    auto found = FindViews(layout, manifest.digest);
    if (!found) {
      Error error = std::move(found).error();
      error.hint = "--no-views removes the tag alone";
      return error;
    }
    views = *std::move(found);
  }
  for (const StoredView& view : views) {
    const auto tag = ViewTag(reference.tag, view.group);
    if (tag && std::count(view.tags.begin(), view.tags.end(), *tag) > 0)
      removed.tags.push_back({*tag, view.manifest.blob});
  }
  LayoutIndex index = layout.index();
  for (const Tagged& one : removed.tags) index.RemoveTag(one.tag);
  for (const LayoutIndex::Entry& entry : index.entries()) {
    if (entry.blob.digest == manifest.digest && !entry.tag.empty())
      removed.other.push_back(entry.tag);
  }
  if (!options.dry_run) SHARD_CHECK(layout.SetIndex(index));
  return removed;
}

}  // namespace moepack::registry
