#include "manifest/registry/copy.h"

#include <algorithm>
#include <set>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "libshard/remote/scheme.h"
#include "manifest/document/corrupt.h"
#include "manifest/registry/artifact/any_manifest.h"
#include "manifest/registry/artifact/describe_set.h"
#include "manifest/registry/sign/signature_manifest.h"
#include "manifest/registry/store_plan.h"
#include "manifest/registry/stored_manifest.h"
#include "manifest/write/output_path.h"

namespace moepack::registry {
namespace {

using manifest::LinkKind;
using Kind = Reference::Kind;

constexpr size_t kShownBlobs = 5;

// What is copied: a plan, and which of its blobs are configs.
struct CopyPlan {
  StorePlan plan;
  std::set<std::string> configs, seen;  // digests

  void AddBlob(std::string name, const BlobRecord& blob) {
    if (seen.insert(blob.digest).second) plan.blobs.push_back({std::move(name), blob});
  }
};

Status AddManifestOf(const Store& from, const StoredManifest& stored, StoreReport::Tag tag,
                     CopyPlan& copy) {
  SHARD_TRY(const AnyManifest any, ParseAnyManifest(from.NameOf(stored.blob), stored.text));
  for (size_t i = 0; i < any.layers.size(); ++i) {
    const std::string path = any.layers[i].path();
    copy.AddBlob(path.empty() ? Cat("layer ", i, " of ", tag.tag) : path, any.layers[i]);
  }
  copy.AddBlob(Cat("config ", tag.tag), any.config);
  copy.configs.insert(any.config.digest);
  if (copy.seen.insert(stored.blob.digest).second)
    copy.plan.manifests.push_back({Cat("manifest ", tag.tag), stored.blob, stored.text});
  copy.plan.AddTag(std::move(tag), stored.blob, stored.text);
  return Ok();
}

// Adds the node views of a set.
Status AddViews(const Store& from, const StoredManifest& stored, const Reference& reference,
                const std::string& tag, CopyPlan& copy) {
  auto views = FindViews(from, stored.blob.digest);
  if (!views) {
    Error error = std::move(views).error();
    if (error.code == Code::kCorrupt) error.hint = "--no-views copies the set without node views";
    return error;
  }
  for (const StoredView& view : OneOfEachGroup(*std::move(views), reference.tag_or_default())) {
    SHARD_TRY(std::string view_tag, ViewTag(tag, view.group));
    SHARD_CHECK(AddManifestOf(from, view.manifest, {std::move(view_tag), "", view.group}, copy));
  }
  return Ok();
}

Status AddSignatures(const Store& from, CopyPlan& copy) {
  const std::vector<StorePlan::Tag> tags = copy.plan.tags;
  std::set<std::string> done;
  for (const StorePlan::Tag& one : tags) {
    const std::string& digest = one.tag.digest;
    if (!done.insert(digest).second) continue;
    SHARD_TRY(const std::optional<StoredManifest> stored, FindStoredSignatures(from, digest));
    if (stored) SHARD_CHECK(AddManifestOf(from, *stored, {SignatureTag(digest), ""}, copy));
  }
  return Ok();
}

Result<CopyPlan> PlanCopy(const Store& from, const Reference& reference, const std::string& tag,
                          const PutOptions& options) {
  SHARD_TRY(const StoredManifest stored, FindStored(from, reference));
  CopyPlan copy;
  SHARD_CHECK(AddManifestOf(from, stored, {tag, ""}, copy));
  SHARD_TRY(const bool with_views, WithViews(from.NameOf(stored.blob), stored.text, options.views));
  if (with_views) SHARD_CHECK(AddViews(from, stored, reference, tag, copy));
  if (options.signatures) SHARD_CHECK(AddSignatures(from, copy));
  SHARD_CHECK(CheckTagsApart(copy.plan));
  return copy;
}

Result<std::string> TagToCopyTo(const Reference& from, const Reference& to) {
  if (!to.digest.empty()) {
    return Error{Code::kInvalidArgument,
                 Cat("reference: expected a tag to copy to, found ", to.digest),
                 "digests stay as they are: leave it out"};
  }
  if (!to.tag.empty()) return to.tag;
  if (!from.tag.empty() || from.digest.empty()) return from.tag_or_default();
  return Error{Code::kInvalidArgument, "reference: expected a tag to copy to, found none",
               Cat("name one: ", ShellWord(ReferenceText(to.With("TAG"))))};
}

// ---- What is missing

// The hint for a node view that can be copied although its set cannot.
std::string WholeViewHint(const Store& from, const Reference& reference,
                          const std::set<std::string>& missing) {
  const auto stored = FindStored(from, reference);
  if (!stored) return "";
  const auto views = FindViews(from, stored->blob.digest);
  if (!views) return "";
  for (const StoredView& view : *views) {
    const auto any = ParseAnyManifest(from.name(), view.manifest.text);
    if (!any || view.tags.empty() || missing.contains(any->config.digest)) continue;
    const bool whole =
        std::none_of(any->layers.begin(), any->layers.end(),
                     [&](const BlobRecord& layer) { return missing.contains(layer.digest); });
    if (whole)
      return Cat("a node view that is whole can be copied: ",
                 ShellWord(ReferenceText(reference.With(view.tags[0]))));
  }
  return "";
}

// Only complete manifests are copied. What the target has need not be at the source.
Status CheckSource(const Store& from, const Reference& reference, const CopyPlan& copy,
                   const StoreReport& report, const PutOptions& options) {
  const std::vector<StorePlan::Blob>& blobs = copy.plan.blobs;
  std::vector<uint8_t> absent(blobs.size());
  const Status looked =
      ParallelFor(blobs.size(), ThreadsForFiles(options.pack.jobs), [&](size_t i) -> Status {
        SHARD_CHECK(CheckInterrupt());
        if (report.blobs[i].there || !blobs[i].text.empty()) return Ok();
        const Status there = from.CheckBlob(blobs[i].blob);
        absent[i] = !there && there.error().code == Code::kNotFound;
        return absent[i] != 0 ? Ok() : there;
      });
  if (!looked) return looked;
  std::set<std::string> missing;
  std::vector<std::string> names;
  for (size_t i = 0; i < blobs.size(); ++i) {
    if (absent[i] == 0) continue;
    missing.insert(blobs[i].blob.digest);
    if (names.size() < kShownBlobs) names.push_back(Shown(blobs[i].name));
  }
  if (missing.empty()) return Ok();
  const size_t more = missing.size() - names.size();
  return Error{Code::kNotFound,
               Cat(from.name(), ": ", copy.plan.tags[0].tag.digest, ": expected all of its ",
                   Plural(blobs.size(), "blob"), ", found none of ", moepack::Join(names, ", "),
                   more > 0 ? Cat(" and ", more, " more") : ""),
               WholeViewHint(from, reference, missing)};
}

// ---- Signatures that the target has

// The manifest with the signatures of both; no value if one of them is no manifest of signatures,
// or if these are too many.
std::optional<WrittenSignatures> BothSignatures(const StoredManifest& there,
                                                std::string_view copied) {
  auto both = ParseSignatureManifest("", there.text);
  const auto more = ParseSignatureManifest("", copied);
  if (!both || !more) return std::nullopt;
  const size_t before = both->layers.size();
  for (const BlobRecord& layer : more->layers) {
    const bool known =
        std::any_of(both->layers.begin(), both->layers.end(), [&](const BlobRecord& one) {
          return one.digest == layer.digest && one.annotations == layer.annotations;
        });
    if (!known) both->layers.push_back(layer);
  }
  if (both->layers.size() > kMaxSignatures) return std::nullopt;
  WrittenSignatures written = WriteSignatures(*both);
  // Whoever wrote it may spell it differently.
  if (both->layers.size() == before) written = {{}, {there.blob, there.text}};
  return written;
}

// Signatures that others made at the target stay: those that are copied are added to them. What
// cannot be read is replaced with --force only, like any other tag.
Status KeepSignatures(const Store& to, CopyPlan& copy) {
  for (StorePlan::Tag& one : copy.plan.tags) {
    NewTag& entry = one.entry;
    if (!IsSignatureTag(entry.tag)) continue;
    const auto there = to.FindTag(entry.tag);
    if (!there && there.error().code == Code::kNotFound) continue;
    if (!there) return there.error();
    if (there->digest == entry.manifest.digest) continue;
    SHARD_TRY(const StoredManifest stored, ReadStored(to, *there));
    const std::optional<WrittenSignatures> both = BothSignatures(stored, entry.text);
    if (!both) continue;
    for (StorePlan::Blob& manifest : copy.plan.manifests) {
      if (manifest.blob.digest != entry.manifest.digest) continue;
      manifest.blob = both->manifest.blob;
      manifest.text = both->manifest.text;
    }
    const TextBlob& config = both->config;
    if (!config.text.empty())
      copy.plan.blobs.push_back({Cat("config ", entry.tag), config.blob, config.text});
    entry = {entry.tag, both->manifest.blob, both->manifest.text, there->digest};
    one.tag.digest = entry.manifest.digest;
    one.tag.moving = true;
  }
  return Ok();
}

// ---- Copying

struct Ends {
  const Store& from;
  WritableStore& to;
  bool from_files = false;  // a distribution, whose small files people edit
};

Error Explained(const Ends& ends, Error error) {
  if (error.code != Code::kMismatch) return error;
  if (!ends.from_files) {  // a pull from there ends the same way
    return Error{Code::kCorrupt, std::move(error.message), ends.from.CorruptHint()};
  }
  error.hint = manifest::kCorruptHint;
  return manifest::NameCorrupt(ends.from.name(), std::move(error));
}

Result<Added> CopyBlob(const Ends& ends, const CopyPlan& copy, const StorePlan::Blob& item,
                       LinkKind link, const PieceDone& read) {
  if (!item.text.empty()) return ends.to.AddText(item.blob, item.text);
  // The config of a distribution as files is not a file.
  if (copy.configs.contains(item.blob.digest) && item.blob.size <= kMaxOciManifest) {
    SHARD_TRY(const std::string text, ends.from.ReadBlob(item.blob, kMaxOciManifest));
    SHARD_TRY(Added added, ends.to.AddText(item.blob, text));
    read(item.blob.size);
    return added;
  }
  const bool edited = ends.from_files && item.blob.media_type != kWeightType;
  auto added = ends.to.AddFile(ends.from.blobs(), ends.from.FileOf(item.blob), item.blob,
                               edited ? LinkKind::kCopy : link, read);
  if (added) return added;
  const bool only_there =
      added.error().code == Code::kNotFound && ends.to.CheckBlob(item.blob).has_value();
  if (only_there) return Added{"there"};
  return Explained(ends, std::move(added).error());
}

// Nothing is written into a distribution.
Status CheckApart(const Reference& from, const Reference& to) {
  const bool local = from.kind == Kind::kFiles && !remote::IsAddress(from.place);
  if (!local || to.kind != Kind::kLayout) return Ok();
  return manifest::CheckOutsideDistribution(to.place, from.place);
}

}  // namespace

Result<StoreReport> Copy(const Reference& from, const Reference& to, const PutOptions& options) {
  SHARD_TRY(const std::string tag, TagToCopyTo(from, to));
  SHARD_CHECK(CheckApart(from, to));
  SHARD_TRY(const StorePtr source, OpenStore(from, options.access));
  SHARD_TRY(CopyPlan copy, PlanCopy(*source, from, tag, options));
  SHARD_TRY(const StorePtr before, OpenTarget(to, options.access));
  if (before) SHARD_CHECK(KeepSignatures(*before, copy));
  StoreReport report = StartReport(copy.plan);
  if (before) SHARD_CHECK(LookAtStore(*before, options, copy.plan, report));
  SHARD_CHECK(CheckSource(*source, from, copy, report, options));
  if (options.dry_run) return report;
  SHARD_TRY(const std::shared_ptr<WritableStore> target, OpenWritable(to, options.access));
  const Ends ends{*source, *target, from.kind == Kind::kFiles};
  const auto add = [&](const StorePlan::Blob& item, const PieceDone& read) {
    return CopyBlob(ends, copy, item, options.link.value_or(LinkKind::kAuto), read);
  };
  SHARD_CHECK(PutPlan(*target, add, options, copy.plan, report));
  return report;
}

}  // namespace moepack::registry
