#include "manifest/registry/pull_files.h"

#include <unistd.h>

#include <map>

#include "libshard/base/digest.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/store/place_file.h"
#include "manifest/registry/store/store.h"
#include "manifest/registry/transfer/fetch_plan.h"
#include "manifest/write/link_file.h"
#include "manifest/write/stated_file.h"

namespace moepack::registry {
namespace {

using manifest::LinkKind;

constexpr const char* kResumed = "resumed";  // completely, by an earlier run

}  // namespace

PullFiles::PullFiles(const Store& store, const OpenedSet& set, const PullOptions& options)
    : store_(store), set_(set), options_(options) {}

Status PullFiles::MakePlan(const std::vector<BlobRecord>& layers, const std::string& out,
                           const PullTarget& target) {
  out_ = out;
  extends_ = target.state == PullTarget::State::kSame;
  report_.extended = extends_;
  uint64_t total = 0;
  for (const BlobRecord& layer : layers) {
    items_.push_back({layer, ""});
    report_.files.push_back({layer.path(), layer.digest, layer.size});
    total += layer.size;
  }
  ProgressCounter progress(options_.pack.progress, total);
  const size_t jobs = ThreadsForFiles(options_.pack.jobs);
  return ParallelFor(items_.size(), jobs, [&](size_t i) -> Status {
    std::string candidate = extends_ ? layers[i].path() : "";
    const auto other = target.files.find(layers[i].digest);
    if (options_.update && !extends_ && other != target.files.end()) candidate = other->second;
    SHARD_CHECK(LookAt(items_[i], report_.files[i], candidate, progress));
    return report_.files[i].there ? Ok() : store_.CheckBlob(layers[i]);
  });
}

// An existing file with its stated bytes is kept; everything else is placed again.
Status PullFiles::LookAt(Item& item, PullReport::File& file, const std::string& candidate,
                         ProgressCounter& progress) const {
  if (candidate.empty()) return Ok();
  const LocalTree tree(out_);
  const auto source = tree.Open(candidate);
  if (!source || (*source)->size() != file.bytes) return Ok();
  SHARD_TRY(const std::string sha256,
            HashFile(tree, candidate, [&](uint64_t bytes) { progress.Add(bytes); }));
  if (DigestOf(sha256) != file.digest) return Ok();
  item.kept = candidate;
  file.there = true;
  file.how = "there";
  return Ok();
}

// Whether large files get to `out` by links, which take no space.
bool PullFiles::Links(const std::string& out) const {
  const auto here = store_.blobs().LocalPath("");
  return here && !manifest::WillCopy(*here, out, options_.link.value_or(LinkKind::kAuto));
}

Status PullFiles::CheckSpace(const std::string& out) const {
  if (is_far() || Links(out)) return Ok();  // the code that fetches checks the free space
  uint64_t needed = 0;
  for (const PullReport::File& file : report_.files) needed += file.there ? 0 : file.bytes;
  needed += needed / 100;
  SHARD_TRY(const uint64_t free, FreeBytes(out));
  if (needed <= free) return Ok();
  return Error{
      Code::kIo,
      Cat(out, ": free space: expected ", FormatBytes(needed), ", found ", FormatBytes(free)),
      "free some space, or choose an output on the file system of the layout, where files can be "
      "linked"};
}

Status PullFiles::Place(StagingDirectory& staging) {
  uint64_t total = 0;
  std::vector<size_t> near, far;
  for (size_t i = 0; i < items_.size(); ++i) {
    const PullReport::File& file = report_.files[i];
    if (file.there && extends_) continue;
    staging.Expect(file.name);
    const bool fetched = !file.there && is_far() && file.name != manifest::kManifestFile;
    (fetched ? far : near).push_back(i);
    total += fetched ? 0 : file.bytes;
  }
  ProgressCounter progress(options_.pack.progress, total);
  const size_t jobs = ThreadsForFiles(options_.pack.jobs);
  const Status placed = ParallelFor(near.size(), jobs, [&](size_t i) -> Status {
    SHARD_CHECK(CheckInterrupt());
    return PlaceOne(items_[near[i]], staging, progress, report_.files[near[i]]);
  });
  return !placed || far.empty() ? placed : Fetch(staging, far);
}

Status PullFiles::LookAtStaged(const Item& item, const StagingDirectory& staging,
                               PullReport::File& file, ProgressCounter& progress) const {
  SHARD_TRY(const auto kind, staging.files().KindOf(file.name));
  if (kind != InsideDirectory::Kind::kFile) return staging.files().Remove(file.name);
  const LocalTree tree(staging.path());
  SHARD_TRY(const std::string sha256,
            HashFile(tree, file.name, [&](uint64_t bytes) { progress.Add(bytes); }));
  if (DigestOf(sha256) != item.layer.digest) return staging.files().Remove(file.name);
  file.how = kResumed;
  return Ok();
}

// Files from another machine are resumed where an earlier run stopped.
Status PullFiles::Fetch(const StagingDirectory& staging, const std::vector<size_t>& which) {
  std::map<std::string, CellDigests> cells;
  for (const manifest::BundleRecord& bundle : set_.manifest.bundles)
    cells.emplace(bundle.file, bundle.cells);
  ProgressCounter looking(options_.pack.progress, 0);
  std::vector<FetchItem> items;
  for (const size_t i : which) {
    const BlobRecord& layer = items_[i].layer;
    PullReport::File& file = report_.files[i];
    SHARD_CHECK(LookAtStaged(items_[i], staging, file, looking));
    if (file.how == kResumed) {
      report_.resumed_bytes += file.bytes;
      continue;
    }
    file.how = kFetched;
    items.push_back({[this, &layer] { return store_.blobs().Open(store_.FileOf(layer)); },
                     {store_.NameOf(layer), HexOf(layer.digest), layer.size, cells[file.name]},
                     file.name});
  }
  FetchOptions fetch;
  fetch.warn = options_.access.remote.warn;
  fetch.progress = fetch.rehashed = options_.pack.progress;
  SHARD_TRY(const std::vector<FetchReport> fetched, FetchFiles(items, staging.files(), fetch));
  for (const FetchReport& one : fetched) {
    report_.fetched_bytes += one.fetched_bytes;
    report_.resumed_bytes += one.resumed_bytes;
  }
  return Ok();
}

// Returns the SHA-256 of what was placed.
Result<std::string> PullFiles::PlaceBytes(const Item& item, const InsideDirectory& directory,
                                          const std::string& name, ProgressCounter& progress,
                                          PullReport::File& file) const {
  const auto read = [&](uint64_t bytes) { progress.Add(bytes); };
  if (file.name == manifest::kManifestFile && item.kept.empty()) {  // it was read and hashed
    SHARD_CHECK(directory.WriteText(name, set_.distribution_text));
    file.how = is_far() ? kFetched : manifest::LinkName(LinkKind::kCopy);
    return Sha256Hex(set_.distribution_text);
  }
  if (!item.kept.empty()) {
    const LocalTree tree(out_);
    SHARD_TRY(PlacedFile placed,
              PlaceFile(tree, item.kept, directory, name, LinkKind::kAuto, read));
    return std::move(placed.sha256);
  }
  const bool bundle = item.layer.media_type == kWeightType;
  const LinkKind link = bundle ? options_.link.value_or(LinkKind::kAuto) : LinkKind::kCopy;
  SHARD_TRY(PlacedFile placed,
            PlaceFile(store_.blobs(), store_.FileOf(item.layer), directory, name, link, read));
  file.how = manifest::LinkName(placed.how);
  return std::move(placed.sha256);
}

// A file gets its name only once it is verified: if the file system has no locks, another run may
// have published this directory meanwhile.
Status PullFiles::PlaceOne(const Item& item, const StagingDirectory& staging,
                           ProgressCounter& progress, PullReport::File& file) const {
  const InsideDirectory& files = staging.files();
  const fs::path path(file.name);
  const std::string folder = path.parent_path().string(), name = path.filename().string();
  const std::string own = Cat(name, ".tmp-", getpid());
  SHARD_TRY(const InsideDirectory directory,
            folder.empty() ? InsideDirectory::Open(files.path()) : files.MakeDirectories(folder));
  SHARD_CHECK(directory.Remove(own));  // left by an earlier run that was killed
  const auto sha256 = PlaceBytes(item, directory, own, progress, file);
  if (!sha256) {
    (void)directory.Remove(own).has_value();
    if (sha256.error().code != Code::kNotFound) return sha256.error();
    SHARD_CHECK(store_.CheckBlob(item.layer));  // it existed a moment ago
    return sha256.error();
  }
  if (DigestOf(*sha256) == item.layer.digest) {
    SHARD_CHECK(directory.Move(own, directory, name, true));
    return directory.Remove(own);  // it stays if both are links to the same file
  }
  return Error{Code::kCorrupt,
               Cat(store_.NameOf(item.layer), ": content: expected ", item.layer.digest, ", found ",
                   DigestOf(*sha256)),
               store_.CorruptHint()};
}

}  // namespace moepack::registry
