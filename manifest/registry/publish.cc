#include "manifest/registry/publish.h"

#include <algorithm>
#include <set>

#include "libshard/base/text/text.h"
#include "manifest/document/corrupt.h"
#include "manifest/document/parts.h"
#include "manifest/registry/artifact/distribution_parts.h"
#include "manifest/registry/published_parts.h"
#include "manifest/registry/store_plan.h"
#include "manifest/write/output_path.h"

namespace moepack::registry {
namespace {

using manifest::LinkKind;
using manifest::Manifest;

// A node has all parts that do not belong to other groups.
bool LacksOnlyGroups(const Manifest& manifest) {
  const auto absent = AbsentParts(manifest);
  return std::all_of(absent.begin(), absent.end(),
                     [](const manifest::PartKey& part) { return part.role == Role::kGroup; });
}

// Files with the same content are one blob.
class PlanMaker {
 public:
  explicit PlanMaker(const PublishedParts& read) : read_(read) {}

  // Adds a manifest with everything that it names, and returns its digest.
  std::string Add(OciManifest described, StoreReport::Tag tag) {
    const Artifact artifact = MakeArtifact(read_.manifest, std::move(described));
    for (const BlobRecord& layer : artifact.oci.layers)
      AddBlob({layer.path(), layer, TextOf(layer.path())});
    AddBlob({Cat("config ", tag.tag), artifact.oci.config, artifact.config});
    plan_.manifests.push_back({Cat("manifest ", tag.tag), artifact.blob, artifact.text});
    plan_.AddTag(std::move(tag), artifact.blob, artifact.text);
    return artifact.blob.digest;
  }
  StorePlan Take() && { return std::move(plan_); }

 private:
  void AddBlob(StorePlan::Blob blob) {
    if (seen_.insert(blob.blob.digest).second) plan_.blobs.push_back(std::move(blob));
  }
  std::string TextOf(const std::string& path) const {
    if (path == manifest::kManifestFile) return read_.text;
    return path == manifest::kReadmeFile ? read_.readme : "";
  }

  const PublishedParts& read_;
  std::set<std::string> seen_;
  StorePlan plan_;
};

// The moving tags name the same manifests.
Status AddMovingTags(const PutOptions& options, StorePlan& plan) {
  const size_t manifests = plan.tags.size();
  for (const std::string& moving : options.moving_tags) {
    for (size_t i = 0; i < manifests; ++i) {
      StorePlan::Tag more = plan.tags[i];
      std::string& tag = more.entry.tag = moving;
      if (more.tag.group) {
        SHARD_TRY(tag, ViewTag(moving, *more.tag.group));
      }
      more.tag.tag = tag;
      more.tag.moving = true;
      plan.tags.push_back(std::move(more));
    }
  }
  return CheckTagsApart(plan);
}

Result<StorePlan> MakePlan(const PublishedParts& read, const std::string& tag,
                           const PutOptions& options) {
  PlanMaker maker(read);
  const std::string digest = maker.Add(DescribeSet(read.manifest, read.files), {tag, ""});
  if (options.views && LacksOnlyGroups(read.manifest)) {
    for (const uint32_t group : GroupsThere(read.manifest)) {
      SHARD_TRY(std::string view, ViewTag(tag, group));
      maker.Add(DescribeView(read.manifest, read.files, group, digest),
                {std::move(view), "", group});
    }
  }
  StorePlan plan = std::move(maker).Take();
  for (const StorePlan::Blob& item : plan.manifests) {
    if (item.blob.size > kMaxOciManifest) {
      return Error{
          Code::kUnsupported,
          Cat(item.name, ": expected at most ", kMaxOciManifest, " bytes, found ", item.blob.size),
          "write the distribution with fewer or larger files"};
    }
    // What readers refuse is not published.
    SHARD_CHECK(ParseOciManifest(item.name, item.text));
  }
  SHARD_CHECK(AddMovingTags(options, plan));
  return plan;
}

Status CheckSizes(const PublishedParts& read, const StorePlan& plan) {
  for (const StorePlan::Blob& item : plan.blobs) {
    if (item.text.empty()) SHARD_CHECK(CheckPublishedSize(read, item.name, item.blob.size));
  }
  return Ok();
}

Result<Added> AddItem(const PublishedParts& read, WritableStore& store, const StorePlan::Blob& item,
                      LinkKind link, const PieceDone& progress) {
  if (!item.text.empty()) return store.AddText(item.blob, item.text);
  const bool bundle = item.blob.media_type == kWeightType;
  auto added =
      store.AddFile(*read.tree, item.name, item.blob, bundle ? link : LinkKind::kCopy, progress);
  if (added || added.error().code != Code::kMismatch) return added;
  Error error = std::move(added).error();
  error.hint = manifest::kCorruptHint;
  return manifest::NameCorrupt(read.tree->name(), std::move(error));
}

}  // namespace

Result<StoreReport> Publish(const std::string& distribution, const Reference& to,
                            const PutOptions& options) {
  if (!to.digest.empty()) {
    return Error{Code::kInvalidArgument,
                 Cat("reference: expected a tag to publish under, found ", to.digest),
                 "a digest is what publishing prints: leave it out"};
  }
  if (to.kind == Reference::Kind::kLayout)
    SHARD_CHECK(manifest::CheckOutsideDistribution(to.place, distribution));
  SHARD_TRY(const PublishedParts read, ReadPublished(distribution));
  std::vector<std::string> absent = AbsentWords(read.manifest);
  SHARD_CHECK(CheckWhole(distribution, absent, options.allow_incomplete));
  SHARD_TRY(StorePlan plan, MakePlan(read, to.tag_or_default(), options));
  SHARD_CHECK(CheckSizes(read, plan));
  StoreReport report = StartReport(plan);
  report.absent = std::move(absent);
  report.group = FirstGroupThere(read.manifest);
  if (options.dry_run) {
    SHARD_TRY(const StorePtr store, OpenTarget(to, options.access));
    if (store) SHARD_CHECK(LookAtStore(*store, options, plan, report));
    return report;
  }
  SHARD_TRY(const std::shared_ptr<WritableStore> store, OpenWritable(to, options.access));
  const auto add = [&](const StorePlan::Blob& item, const PieceDone& progress) {
    return AddItem(read, *store, item, options.link.value_or(LinkKind::kAuto), progress);
  };
  SHARD_CHECK(PutPlan(*store, add, options, plan, report));
  return report;
}

}  // namespace moepack::registry
