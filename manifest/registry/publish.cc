#include "manifest/registry/publish.h"

#include <algorithm>
#include <set>

#include "libshard/base/byte_progress.h"
#include "libshard/base/digest.h"
#include "libshard/base/local_tree.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text.h"
#include "manifest/document/damaged.h"
#include "manifest/document/manifest_json.h"
#include "manifest/document/parts.h"
#include "manifest/registry/artifact/describe_set.h"
#include "manifest/registry/store/oci_layout.h"
#include "manifest/write/output_path.h"
#include "manifest/write/promised_file.h"

namespace moepack::registry {
namespace {

using manifest::LinkKind;
using manifest::Manifest;

constexpr uint64_t kMaxReadme = 1u << 20;

// A blob to be: a file of the distribution, or a text that was made here.
struct BlobItem {
  std::string name;
  BlobRecord blob;
  std::string text = {};  // "" for a file of the distribution
};

// A manifest and the tag that it gets.
struct Tagged {
  PublishReport::Tag tag;
  BlobRecord blob;
};

struct PublishPlan {
  std::vector<BlobItem> items;
  std::vector<Tagged> tagged;
};

// What is read of the distribution before anything is planned.
struct SourceParts {
  std::shared_ptr<const LocalTree> tree;
  Manifest manifest;
  std::string text, readme;
  SmallFiles files;
};

SmallFile SmallFileOf(std::string_view text) { return {DigestOf(Sha256Hex(text)), text.size()}; }

Result<SourceParts> ReadDistribution(const std::string& distribution) {
  SourceParts read;
  read.tree = std::make_shared<const LocalTree>(distribution);
  SHARD_TRY(read.text, manifest::ReadManifestText(*read.tree));
  SHARD_TRY(read.manifest,
            manifest::ParseManifest(read.tree->NameOf(manifest::kManifestFile), read.text));
  read.files.distribution = SmallFileOf(read.text);
  SHARD_TRY(const bool readme, read.tree->Has(kReadmeFile));
  if (!readme) return read;
  SHARD_TRY(read.readme, read.tree->ReadText(kReadmeFile, kMaxReadme));
  if (!read.readme.empty()) read.files.readme = SmallFileOf(read.readme);
  return read;
}

Status CheckWhole(const std::string& distribution, const std::vector<std::string>& absent,
                  const PublishOptions& options) {
  if (absent.empty() || options.allow_incomplete) return Ok();
  return Error{Code::kInvalidArgument,
               Cat(distribution, ": expected a complete distribution, found one that lacks ",
                   moepack::Join(absent, ", ")),
               "--allow-incomplete publishes the parts that are there"};
}

// A node has all parts that are not of another group.
bool LacksOnlyGroups(const Manifest& manifest) {
  const auto absent = AbsentParts(manifest);
  return std::all_of(absent.begin(), absent.end(),
                     [](const manifest::PartKey& part) { return part.first == Role::kGroup; });
}

// Files that have the same content are one blob.
class PlanMaker {
 public:
  explicit PlanMaker(const SourceParts& read) : read_(read) {}

  // Adds a manifest with everything that it names, and returns its digest.
  std::string Add(OciManifest oci, PublishReport::Tag tag) {
    const std::string config = ConfigText(read_.manifest, oci.layers);
    const SmallFile described = SmallFileOf(config);
    oci.config = {kConfigType, described.digest, described.size};
    for (const BlobRecord& layer : oci.layers) AddItem({layer.path(), layer, TextOf(layer.path())});
    AddItem({Cat("config ", tag.tag), oci.config, config});
    const std::string text = WriteOciManifest(oci);
    const SmallFile whole = SmallFileOf(text);
    const BlobRecord blob = {kManifestType, whole.digest, whole.size};
    AddItem({Cat("manifest ", tag.tag), blob, text});
    tag.digest = whole.digest;
    plan_.tagged.push_back({std::move(tag), blob});
    return whole.digest;
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

  const SourceParts& read_;
  std::set<std::string> seen_;
  PublishPlan plan_;
};

std::string ViewTag(const std::string& tag, uint32_t group) {
  return Cat(tag, "-g", GroupText(group));
}

Result<PublishPlan> MakePlan(const SourceParts& read, const std::string& tag,
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
  for (const Tagged& tagged : plan.tagged) {
    if (tagged.blob.size <= kMaxOciManifest) continue;
    return Error{Code::kUnsupported,
                 Cat("manifest ", tagged.tag.tag, ": expected at most ", kMaxOciManifest,
                     " bytes, found ", tagged.blob.size),
                 "write the distribution with fewer or larger files"};
  }
  return plan;
}

Status CheckSizes(const SourceParts& read, const PublishPlan& plan) {
  for (const BlobItem& item : plan.items) {
    if (!item.text.empty()) continue;
    SHARD_TRY(const bool there, read.tree->Has(item.name));
    if (!there) {
      return Error{Code::kNotFound,
                   Cat(read.tree->NameOf(item.name), ": expected a file of ", item.blob.size,
                       " bytes, found none"),
                   "a directory that `moepack pull` made holds the files of some nodes only: "
                   "publish the whole distribution"};
    }
    SHARD_TRY(const ByteSourcePtr file, read.tree->Open(item.name));
    if (file->size() == item.blob.size) continue;
    return manifest::NameDamaged(read.tree->name(),
                                 Error{Code::kMismatch,
                                       Cat(file->name(), ": file size: expected ", item.blob.size,
                                           " bytes, found ", file->size()),
                                       manifest::kDamagedHint});
  }
  return Ok();
}

// Notes what the tags name now.
Status CheckTags(const OciLayout& layout, const PublishOptions& options, PublishPlan& plan) {
  for (Tagged& tagged : plan.tagged) {
    const LayoutIndex::Entry* entry = layout.index().FindTag(tagged.tag.tag);
    if (entry == nullptr) continue;
    tagged.tag.before = entry->blob.digest;
    if (tagged.tag.before == tagged.tag.digest || options.force) continue;
    return Error{Code::kInvalidArgument,
                 Cat(layout.directory(), ": tag ", Quoted(tagged.tag.tag), ": expected ",
                     tagged.tag.digest, " or no such tag, found ", tagged.tag.before),
                 "choose another tag, or move this one with --force"};
  }
  return Ok();
}

PublishReport StartReport(const PublishPlan& plan, std::vector<std::string> absent) {
  PublishReport report;
  for (const BlobItem& item : plan.items)
    report.blobs.push_back({item.name, item.blob.digest, item.blob.size});
  for (const Tagged& tagged : plan.tagged) report.tags.push_back(tagged.tag);
  report.absent = std::move(absent);
  return report;
}

Result<OciLayout::Added> AddItem(const SourceParts& read, const OciLayout& layout,
                                 const BlobItem& item, LinkKind link,
                                 const OciLayout::BytesRead& progress) {
  if (!item.text.empty()) return layout.AddText(item.blob, item.text);
  const bool bundle = item.blob.media_type == kWeightType;
  auto added =
      layout.AddFile(*read.tree, item.name, item.blob, bundle ? link : LinkKind::kCopy, progress);
  if (added || added.error().code != Code::kMismatch) return added;
  Error error = std::move(added).error();
  error.hint = manifest::kDamagedHint;
  return manifest::NameDamaged(read.tree->name(), std::move(error));
}

Status AddItems(const SourceParts& read, const OciLayout& layout, const PublishPlan& plan,
                const PublishOptions& options, PublishReport& report) {
  uint64_t total = 0;
  for (const BlobItem& item : plan.items) total += item.text.empty() ? item.blob.size : 0;
  ByteProgress progress(manifest::CheckingReport(options.pack), total);
  std::vector<OciLayout::Added> added(plan.items.size());
  const size_t jobs = ThreadsForFiles(options.pack.jobs);
  const Status status = ParallelFor(plan.items.size(), jobs, [&](size_t i) -> Status {
    SHARD_CHECK(CheckInterrupt());
    SHARD_TRY(added[i], AddItem(read, layout, plan.items[i], options.link,
                                [&](uint64_t bytes) { progress.Add(bytes); }));
    return Ok();
  });
  if (!status) return status;
  for (size_t i = 0; i < added.size(); ++i) {
    PublishReport::Blob& blob = report.blobs[i];
    blob.there = !added[i].how;
    blob.how = blob.there ? "there" : manifest::LinkName(*added[i].how);
    if (added[i].mended)
      report.warnings.push_back(Cat(layout.NameOf(plan.items[i].blob),
                                    ": what was there had other bytes, and was replaced"));
  }
  return Ok();
}

// Looks at what is there without making or locking anything.
Status LookAtLayout(const std::string& directory, const PublishOptions& options, PublishPlan& plan,
                    PublishReport& report) {
  const auto layout = OciLayout::Open(directory);
  if (!layout) return layout.error().code == Code::kNotFound ? Ok() : Status(layout.error());
  SHARD_CHECK(CheckTags(*layout, options, plan));
  for (size_t i = 0; i < plan.items.size(); ++i) {
    report.blobs[i].there = layout->CheckBlob(plan.items[i].blob).has_value();
    if (report.blobs[i].there) report.blobs[i].how = "there";
  }
  for (size_t i = 0; i < plan.tagged.size(); ++i) report.tags[i] = plan.tagged[i].tag;
  return Ok();
}

}  // namespace

uint64_t PublishReport::added_bytes() const {
  uint64_t bytes = 0;
  for (const Blob& blob : blobs) bytes += blob.there ? 0 : blob.bytes;
  return bytes;
}

uint64_t PublishReport::copied_bytes() const {
  uint64_t bytes = 0;
  for (const Blob& blob : blobs) bytes += blob.how == LinkName(LinkKind::kCopy) ? blob.bytes : 0;
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
  SHARD_CHECK(manifest::CheckOutsideDistribution(to.directory, distribution));
  SHARD_TRY(const SourceParts read, ReadDistribution(distribution));
  std::vector<std::string> absent = AbsentWords(read.manifest);
  SHARD_CHECK(CheckWhole(distribution, absent, options));
  SHARD_TRY(PublishPlan plan, MakePlan(read, to.tag_or_default(), options));
  SHARD_CHECK(CheckSizes(read, plan));
  PublishReport report = StartReport(plan, std::move(absent));
  if (options.dry_run) {
    SHARD_CHECK(LookAtLayout(to.directory, options, plan, report));
    return report;
  }
  SHARD_TRY(OciLayout layout, OciLayout::OpenOrMake(to.directory));
  SHARD_CHECK(CheckTags(layout, options, plan));
  SHARD_CHECK(AddItems(read, layout, plan, options, report));
  LayoutIndex index = layout.index();
  for (const Tagged& tagged : plan.tagged) index.SetTag(tagged.tag.tag, tagged.blob);
  SHARD_CHECK(layout.SetIndex(index));
  for (size_t i = 0; i < plan.tagged.size(); ++i) report.tags[i] = plan.tagged[i].tag;
  return report;
}

}  // namespace moepack::registry
