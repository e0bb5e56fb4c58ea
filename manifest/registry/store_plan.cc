#include "manifest/registry/store_plan.h"

#include <set>

#include "libshard/base/parallel.h"
#include "libshard/base/progress.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/describe_set.h"
#include "manifest/registry/store/oci_layout.h"
#include "manifest/write/stated_file.h"

namespace moepack::registry {
namespace {

// Notes what the tags name now.
Status CheckTags(const Store& store, bool force, StorePlan& plan) {
  for (StorePlan::Tag& one : plan.tags) {
    StoreReport::Tag& tag = one.tag;
    const auto found = store.FindTag(tag.tag);
    if (!found && found.error().code == Code::kNotFound) continue;
    if (!found) return found.error();
    tag.before = found->digest;
    if (tag.before == tag.digest || tag.moving || force) continue;
    return Error{Code::kInvalidArgument,
                 Cat(store.name(), ": tag ", Quoted(tag.tag), ": expected ", tag.digest,
                     " or no such tag, found ", tag.before),
                 "choose another tag, or move this one with --force"};
  }
  return Ok();
}

void NoteTags(const StorePlan& plan, StoreReport& report) {
  for (size_t i = 0; i < plan.tags.size(); ++i) report.tags[i] = plan.tags[i].tag;
}

void Note(const Store& store, const StorePlan::Blob& item, const Added& added, StoreReport& report,
          StoreReport::Blob& blob) {
  blob.how = added.how;
  blob.there = added.was_there();
  if (added.mended)
    report.warnings.push_back(
        Cat(store.NameOf(item.blob), ": what was there had other bytes, and was replaced"));
}

Status CheckManifest(const Store& store, const BlobRecord& manifest) {
  SHARD_CHECK(store.ReadManifest(manifest));
  return Ok();
}

// Damaged blobs are replaced.
bool IsAbsentOrCorrupt(const Error& error) {
  return error.code == Code::kNotFound || error.code == Code::kCorrupt;
}

Status AddBlobs(const BlobAdder& add, const PackOptions& pack, const StorePlan& plan,
                std::vector<Added>& added) {
  uint64_t total = 0;
  for (const StorePlan::Blob& item : plan.blobs) total += item.text.empty() ? item.blob.size : 0;
  ProgressCounter progress(pack.progress, total);
  return ParallelFor(plan.blobs.size(), ThreadsForFiles(pack.jobs), [&](size_t i) -> Status {
    SHARD_CHECK(CheckInterrupt());
    SHARD_TRY(added[i], add(plan.blobs[i], [&](uint64_t bytes) { progress.Add(bytes); }));
    return Ok();
  });
}

const StorePlan::Blob& ItemOf(const StorePlan& plan, size_t i) {
  return i < plan.blobs.size() ? plan.blobs[i] : plan.manifests[i - plan.blobs.size()];
}

// Blobs, and behind them manifests.
Status AddItems(WritableStore& store, const BlobAdder& add, const PackOptions& pack,
                const StorePlan& plan, std::vector<Added>& added) {
  SHARD_CHECK(AddBlobs(add, pack, plan, added));
  for (size_t i = plan.blobs.size(); i < added.size(); ++i) {
    const StorePlan::Blob& item = ItemOf(plan, i);
    SHARD_TRY(added[i], store.AddManifest(item.blob, item.text));
  }
  return Ok();
}

// A full disk is not left that way. What came over a network is kept for the next run, and so is
// everything where the user stopped this one.
void TakeBack(WritableStore& store, const StorePlan& plan, const std::vector<Added>& added) {
  for (size_t i = 0; i < added.size(); ++i) {
    const Added& one = added[i];
    if (one.how.empty() || one.was_there() || one.mended || one.how == kFetched) continue;
    store.TakeBack(ItemOf(plan, i).blob);
  }
}

Status SetTags(WritableStore& store, bool force, const StorePlan& plan) {
  std::vector<NewTag> tags;
  for (const bool asked : {false, true}) {
    for (const StorePlan::Tag& one : plan.tags) {
      if ((one.tag.digest == plan.tags[0].tag.digest) != asked) continue;
      tags.push_back(one.entry);
      // What CheckTags saw must still be so.
      if (!force && !one.tag.moving) tags.back().replaces = one.tag.before;
    }
  }
  SHARD_TRY(const std::vector<std::string> left, store.SetTags(tags));
  if (left.empty()) return Ok();
  return Error{Code::kInvalidArgument,
               Cat(store.name(), ": tag ", Quoted(left[0]),
                   ": expected it as it was a moment ago, found that somebody else has set it"),
               "run the command again, with another tag if this one is not yours"};
}

}  // namespace

void StorePlan::AddTag(StoreReport::Tag tag, const BlobRecord& manifest, const std::string& text) {
  tag.digest = manifest.digest;
  NewTag entry{tag.tag, manifest, text};
  tags.push_back({std::move(tag), std::move(entry)});
}

Result<std::string> ViewTag(const std::string& tag, uint32_t group) {
  std::string view = Cat(tag, "-g", GroupText(group));
  if (IsTag(view)) return view;
  return Error{Code::kInvalidArgument,
               Cat("tag ", Quoted(view), ": expected at most 128 characters, found ", view.size()),
               "choose a shorter tag, or leave out the node views with --no-views"};
}

Status CheckTagsApart(const StorePlan& plan) {
  std::set<std::string> seen;
  for (const StorePlan::Tag& one : plan.tags) {
    if (seen.insert(one.tag.tag).second) continue;
    return Error{Code::kInvalidArgument,
                 Cat("tag ", Quoted(one.tag.tag), ": expected it once, found it twice"),
                 "name each tag once; <tag>-g000 and so on are the tags of node views, which "
                 "--no-views leaves out"};
  }
  return Ok();
}

StoreReport StartReport(const StorePlan& plan) {
  StoreReport report;
  for (const auto* items : {&plan.blobs, &plan.manifests}) {
    for (const StorePlan::Blob& item : *items)
      report.blobs.push_back({item.name, item.blob.digest, item.blob.size});
  }
  for (const StorePlan::Tag& one : plan.tags) report.tags.push_back(one.tag);
  return report;
}

Result<StorePtr> OpenTarget(const Reference& to, const StoreAccess& access) {
  const bool only_read =
      to.kind == Reference::Kind::kFiles || to.kind == Reference::Kind::kWebLayout;
  if (only_read) return OpenWritable(to, access).error();
  auto store = OpenStore(to, access);
  if (store || store.error().code != Code::kNotFound) return store;
  if (to.kind == Reference::Kind::kLayout) SHARD_CHECK(OciLayout::CheckPlace(to.place));
  return StorePtr();
}

Status LookAtStore(const Store& store, const PutOptions& options, StorePlan& plan,
                   StoreReport& report) {
  SHARD_CHECK(CheckTags(store, options.force, plan));
  NoteTags(plan, report);
  const size_t blobs = plan.blobs.size();
  const size_t jobs = ThreadsForFiles(options.pack.jobs);
  return ParallelFor(report.blobs.size(), jobs, [&](size_t i) -> Status {
    SHARD_CHECK(CheckInterrupt());
    StoreReport::Blob& blob = report.blobs[i];
    const auto there = i < blobs ? store.CheckBlob(plan.blobs[i].blob)
                                 : CheckManifest(store, plan.manifests[i - blobs].blob);
    if (!there && !IsAbsentOrCorrupt(there.error())) return there.error();
    blob.there = there.has_value();
    if (blob.there) blob.how = "there";
    return Ok();
  });
}

Status PutPlan(WritableStore& store, const BlobAdder& add, const PutOptions& options,
               StorePlan& plan, StoreReport& report) {
  SHARD_CHECK(CheckTags(store, options.force, plan));
  std::vector<Added> added(report.blobs.size());
  const Status status = AddItems(store, add, options.pack, plan, added);
  if (!status) {
    if (status.error().code != Code::kInterrupted) TakeBack(store, plan, added);
    return status;
  }
  for (size_t i = 0; i < added.size(); ++i)
    Note(store, ItemOf(plan, i), added[i], report, report.blobs[i]);
  SHARD_CHECK(SetTags(store, options.force, plan));
  NoteTags(plan, report);
  return Ok();
}

}  // namespace moepack::registry
