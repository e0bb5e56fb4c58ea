#include "manifest/registry/publish.h"

#include <algorithm>
#include <set>

#include "libshard/base/byte_progress.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text.h"
#include "manifest/document/damaged.h"
#include "manifest/document/parts.h"
#include "manifest/registry/artifact/distribution_parts.h"
#include "manifest/registry/published_parts.h"
#include "manifest/write/output_path.h"
#include "manifest/write/promised_file.h"

namespace moepack::registry {
namespace {

using manifest::LinkKind;
using manifest::Manifest;

// A blob to be: a file of the distribution, or a text that was made here.
struct BlobItem {
  std::string name;
  BlobRecord blob;
  std::string text = {};  // "" for a file of the distribution
};

// A manifest and a tag that it gets.
struct TagPlan {
  PublishReport::Tag tag;
  NewTag entry;
};

struct PublishPlan {
  std::vector<BlobItem> items;      // without the manifests
  std::vector<BlobItem> manifests;  // that of the set first
  std::vector<TagPlan> tags;        // in the same order
};

// A node has all parts that are not of another group.
bool LacksOnlyGroups(const Manifest& manifest) {
  const auto absent = AbsentParts(manifest);
  return std::all_of(absent.begin(), absent.end(),
                     [](const manifest::PartKey& part) { return part.first == Role::kGroup; });
}

// Files that have the same content are one blob.
class PlanMaker {
 public:
  explicit PlanMaker(const PublishedParts& read) : read_(read) {}

  // Adds a manifest with everything that it names, and returns its digest.
  std::string Add(OciManifest described, PublishReport::Tag tag) {
    const Artifact artifact = MakeArtifact(read_.manifest, std::move(described));
    for (const BlobRecord& layer : artifact.oci.layers)
      AddItem({layer.path(), layer, TextOf(layer.path())});
    AddItem({Cat("config ", tag.tag), artifact.oci.config, artifact.config});
    plan_.manifests.push_back({Cat("manifest ", tag.tag), artifact.blob, artifact.text});
    tag.digest = artifact.blob.digest;
    NewTag entry{tag.tag, artifact.blob, artifact.text};
    plan_.tags.push_back({std::move(tag), std::move(entry)});
    return artifact.blob.digest;
  }
  PublishPlan Take() && { return std::move(plan_); }

 private:
  void AddItem(BlobItem item) {
    if (seen_.insert(item.blob.digest).second) plan_.items.push_back(std::move(item));
  }
  std::string TextOf(const std::string& path) const {
    if (path == manifest::kManifestFile) return read_.text;
    return path == kReadmeFile ? read_.readme : "";
  }

  const PublishedParts& read_;
  std::set<std::string> seen_;
  PublishPlan plan_;
};

// The moving tags name the same manifests.
void AddMovingTags(const PublishOptions& options, PublishPlan& plan) {
  const size_t manifests = plan.tags.size();
  const std::string fixed = plan.tags[0].tag.tag;
  for (const std::string& moving : options.moving_tags) {
    for (size_t i = 0; i < manifests; ++i) {
      TagPlan more = plan.tags[i];
      more.tag.tag = more.entry.tag = moving + more.tag.tag.substr(fixed.size());
      more.tag.moving = true;
      plan.tags.push_back(std::move(more));
    }
  }
}

std::string ViewTag(const std::string& tag, uint32_t group) {
  return Cat(tag, "-g", GroupText(group));
}

Result<PublishPlan> MakePlan(const PublishedParts& read, const std::string& tag,
                             const PublishOptions& options) {
  PlanMaker maker(read);
  const std::string digest = maker.Add(DescribeSet(read.manifest, read.files), {tag, ""});
  if (options.views && LacksOnlyGroups(read.manifest)) {
    for (const uint32_t group : GroupsThere(read.manifest)) {
      const std::string view = ViewTag(tag, group);
      if (!IsTag(view)) {
        return Error{
            Code::kInvalidArgument,
            Cat("tag ", Quoted(view), ": expected at most 128 characters, found ", view.size()),
            "choose a shorter tag, or leave out the node views with --no-views"};
      }
      maker.Add(DescribeView(read.manifest, read.files, group, digest), {view, "", group});
    }
  }
  PublishPlan plan = std::move(maker).Take();
  for (const BlobItem& item : plan.manifests) {
    if (item.blob.size <= kMaxOciManifest) continue;
    return Error{
        Code::kUnsupported,
        Cat(item.name, ": expected at most ", kMaxOciManifest, " bytes, found ", item.blob.size),
        "write the distribution with fewer or larger files"};
  }
  AddMovingTags(options, plan);
  return plan;
}

Status CheckSizes(const PublishedParts& read, const PublishPlan& plan) {
  for (const BlobItem& item : plan.items) {
    if (item.text.empty()) SHARD_CHECK(CheckPublishedSize(read, item.name, item.blob.size));
  }
  return Ok();
}

// Notes what the tags name now.
Status CheckTags(const Store& store, const PublishOptions& options, PublishPlan& plan) {
  for (TagPlan& one : plan.tags) {
    PublishReport::Tag& tag = one.tag;
    const auto found = store.FindTag(tag.tag);
    if (!found && found.error().code == Code::kNotFound) continue;
    if (!found) return found.error();
    tag.before = found->digest;
    if (tag.before == tag.digest || tag.moving || options.force) continue;
    return Error{Code::kInvalidArgument,
                 Cat(store.name(), ": tag ", Quoted(tag.tag), ": expected ", tag.digest,
                     " or no such tag, found ", tag.before),
                 "choose another tag, or move this one with --force"};
  }
  return Ok();
}

PublishReport StartReport(const PublishPlan& plan, std::vector<std::string> absent) {
  PublishReport report;
  for (const auto* items : {&plan.items, &plan.manifests}) {
    for (const BlobItem& item : *items)
      report.blobs.push_back({item.name, item.blob.digest, item.blob.size});
  }
  for (const TagPlan& one : plan.tags) report.tags.push_back(one.tag);
  report.absent = std::move(absent);
  return report;
}

Result<Added> AddItem(const PublishedParts& read, WritableStore& store, const BlobItem& item,
                      LinkKind link, const WritableStore::BytesRead& progress) {
  if (!item.text.empty()) return store.AddText(item.blob, item.text);
  const bool bundle = item.blob.media_type == kWeightType;
  auto added =
      store.AddFile(*read.tree, item.name, item.blob, bundle ? link : LinkKind::kCopy, progress);
  if (added || added.error().code != Code::kMismatch) return added;
  Error error = std::move(added).error();
  error.hint = manifest::kDamagedHint;
  return manifest::NameDamaged(read.tree->name(), std::move(error));
}

void Note(const Store& store, const BlobItem& item, const Added& added, PublishReport& report,
          PublishReport::Blob& blob) {
  blob.how = added.how;
  blob.there = added.was_there();
  if (added.mended)
    report.warnings.push_back(
        Cat(store.NameOf(item.blob), ": what was there had other bytes, and was replaced"));
}

Status AddItems(const PublishedParts& read, WritableStore& store, const PublishPlan& plan,
                const PublishOptions& options, PublishReport& report) {
  uint64_t total = 0;
  for (const BlobItem& item : plan.items) total += item.text.empty() ? item.blob.size : 0;
  ByteProgress progress(manifest::CheckingReport(options.pack), total);
  std::vector<Added> added(plan.items.size());
  const size_t jobs = ThreadsForFiles(options.pack.jobs);
  const Status status = ParallelFor(plan.items.size(), jobs, [&](size_t i) -> Status {
    SHARD_CHECK(CheckInterrupt());
    SHARD_TRY(added[i], AddItem(read, store, plan.items[i], options.link,
                                [&](uint64_t bytes) { progress.Add(bytes); }));
    return Ok();
  });
  if (!status) return status;
  for (size_t i = 0; i < added.size(); ++i)
    Note(store, plan.items[i], added[i], report, report.blobs[i]);
  return Ok();
}

Status AddManifests(WritableStore& store, const PublishPlan& plan, PublishReport& report) {
  for (size_t i = 0; i < plan.manifests.size(); ++i) {
    const BlobItem& item = plan.manifests[i];
    SHARD_TRY(const Added added, store.AddManifest(item.blob, item.text));
    Note(store, item, added, report, report.blobs[plan.items.size() + i]);
  }
  return Ok();
}

// The tags of the set come last: once they are seen, the views are there.
Status SetTags(WritableStore& store, const PublishPlan& plan) {
  std::vector<NewTag> tags;
  for (const bool views : {true, false}) {
    for (const TagPlan& one : plan.tags) {
      if (one.tag.group.has_value() == views) tags.push_back(one.entry);
    }
  }
  return store.SetTags(tags);
}

// Looks at what is there without making or locking anything.
Status LookAtStore(const Reference& to, const PublishOptions& options, PublishPlan& plan,
                   PublishReport& report) {
  const auto store = OpenStore(to, options.access);
  if (!store) return store.error().code == Code::kNotFound ? Ok() : Status(store.error());
  SHARD_CHECK(CheckTags(**store, options, plan));
  for (size_t i = 0; i < plan.items.size(); ++i) {
    report.blobs[i].there = (*store)->CheckBlob(plan.items[i].blob).has_value();
    if (report.blobs[i].there) report.blobs[i].how = "there";
  }
  for (size_t i = 0; i < plan.manifests.size(); ++i) {
    PublishReport::Blob& blob = report.blobs[plan.items.size() + i];
    blob.there = (*store)->ReadManifest(plan.manifests[i].blob).has_value();
    if (blob.there) blob.how = "there";
  }
  for (size_t i = 0; i < plan.tags.size(); ++i) report.tags[i] = plan.tags[i].tag;
  return Ok();
}

}  // namespace

uint64_t PublishReport::added_bytes() const {
  uint64_t bytes = 0;
  for (const Blob& blob : blobs) bytes += blob.there ? 0 : blob.bytes;
  return bytes;
}

uint64_t PublishReport::bytes_by(const std::string& how) const {
  uint64_t bytes = 0;
  for (const Blob& blob : blobs) bytes += blob.how == how ? blob.bytes : 0;
  return bytes;
}

uint64_t PublishReport::there_bytes() const {
  uint64_t bytes = 0;
  for (const Blob& blob : blobs) bytes += blob.there ? blob.bytes : 0;
  return bytes;
}

Result<PublishReport> Publish(const std::string& distribution, const Reference& to,
                              const PublishOptions& options) {
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
  SHARD_TRY(PublishPlan plan, MakePlan(read, to.tag_or_default(), options));
  SHARD_CHECK(CheckSizes(read, plan));
  PublishReport report = StartReport(plan, std::move(absent));
  if (options.dry_run) {
    SHARD_CHECK(LookAtStore(to, options, plan, report));
    return report;
  }
  SHARD_TRY(const std::shared_ptr<WritableStore> store, OpenWritable(to, options.access));
  SHARD_CHECK(CheckTags(*store, options, plan));
  SHARD_CHECK(AddItems(read, *store, plan, options, report));
  SHARD_CHECK(AddManifests(*store, plan, report));
  SHARD_CHECK(SetTags(*store, plan));
  for (size_t i = 0; i < plan.tags.size(); ++i) report.tags[i] = plan.tags[i].tag;
  return report;
}

}  // namespace moepack::registry
