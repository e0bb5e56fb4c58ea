// Checks the digests of what is loaded. Unlike in verify, parts that are not loaded may be absent
// or damaged.
//
// A part with tensors is compared tensor by tensor: XXH3-128 is several times as fast as a disk,
// and several threads read one file, while SHA-256 of a file is one long chain. What is between the
// tensors is not loaded, and the header is compared field by field (opened_parts.h). Neither digest
// proves who wrote the manifest; signatures and registries use SHA-256, which `verify` and
// `verify_files` check.
#include <algorithm>

#include "libshard/base/digest.h"
#include "libshard/base/files/scan_file.h"
#include "libshard/base/parallel.h"
#include "libshard/base/progress.h"
#include "libshard/base/text/text.h"
#include "manifest/write/open_bundle.h"
#include "runtime-shim/load/part_selection.h"

namespace moepack::runtime {

namespace {

// What the manifest says about a file.
struct Promise {
  const std::string* file = nullptr;
  uint64_t size = 0;
  const std::string* sha256 = nullptr;
};

// For fewer bytes, opening a file in another thread is not worth it.
constexpr uint64_t kStretchBytes = 16u << 20;

// Adjacent tensors in a file; one thread reads them.
struct Stretch {
  const manifest::BundleRecord* bundle = nullptr;
  std::vector<const manifest::TensorRecord*> tensors = {};
  uint64_t bytes = 0;
};

template <class T, class U>
Error Differs(const std::string& place, const T& expected, const U& found) {
  return Error{Code::kMismatch, Cat(place, ": expected ", expected, ", found ", found),
               manifest::kDamagedHint};
}

Status CheckVersions(const Split& split) {
  const manifest::Versions& said = split.manifest.versions;
  const manifest::Versions made = manifest::ComputeVersions(said.model, split.manifest.plan);
  const std::string where = Cat(split.path, "/", manifest::kManifestFile, ": versions: ");
  if (made.shard != said.shard)
    return Differs(where + "shard", Quoted(made.shard), Quoted(said.shard));
  if (made.replica != said.replica)
    return Differs(where + "replica", Quoted(made.replica), Quoted(said.replica));
  const std::string refit = split.manifest.refit ? RefitVersion(*split.manifest.refit) : "";
  if (refit != said.refit) return Differs(where + "refit", Quoted(refit), Quoted(said.refit));
  return Ok();
}

Result<ByteSourcePtr> OpenPromised(const SourceTree& tree, const std::string& file, uint64_t size) {
  SHARD_TRY(ByteSourcePtr source, manifest::OpenBundleFile(tree, file));
  if (source->size() != size)
    return Differs(source->name() + ": size", Cat(size, " bytes"), source->size());
  return source;
}

Status CheckFile(const SourceTree& tree, const Promise& promise, ProgressCounter& progress) {
  SHARD_TRY(const ByteSourcePtr source, OpenPromised(tree, *promise.file, promise.size));
  SHARD_TRY(const std::string sha256,
            Sha256Of(*source, [&](uint64_t bytes) { progress.Add(bytes); }));
  if (sha256 != *promise.sha256)
    return Differs(source->name() + ": sha256", *promise.sha256, sha256);
  return Ok();
}

Status CheckStretch(const SourceTree& tree, const Stretch& stretch, ProgressCounter& progress) {
  // Opens its own file, because the system reads ahead for each open file.
  SHARD_TRY(const ByteSourcePtr source,
            OpenPromised(tree, stretch.bundle->file, stretch.bundle->size));
  const uint64_t step = ScanStep(*source);
  std::vector<std::byte> buffer(std::min(step, stretch.bytes));
  Xxh3 hash;
  for (const manifest::TensorRecord* tensor : stretch.tensors) {
    hash.Reset();
    for (uint64_t at = 0; at < tensor->bytes; at += step) {
      SHARD_CHECK(CheckInterrupt());
      const auto piece = std::span(buffer).first(std::min(step, tensor->bytes - at));
      SHARD_CHECK(source->ReadAt(tensor->offset + at, piece));
      hash.Update(piece);
      progress.Add(piece.size());
    }
    const std::string found = hash.Hex();
    if (found != tensor->xxh3) {
      return Differs(Cat(source->name(), ": tensor ", Quoted(tensor->name), ": xxh3-128"),
                     tensor->xxh3, found);
    }
  }
  return Ok();
}

void AddStretches(const manifest::BundleRecord& bundle, std::vector<Stretch>& stretches) {
  std::vector<const manifest::TensorRecord*> tensors;
  for (const manifest::TensorRecord& tensor : bundle.tensors) tensors.push_back(&tensor);
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const auto* a, const auto* b) { return a->offset < b->offset; });
  uint64_t left = 0;  // of the last stretch
  for (const manifest::TensorRecord* tensor : tensors) {
    if (left == 0) {
      stretches.push_back({.bundle = &bundle});
      left = kStretchBytes;
    }
    Stretch& last = stretches.back();
    last.tensors.push_back(tensor);
    last.bytes += tensor->bytes;
    left -= std::min(left, tensor->bytes);
  }
}

// What is compared, each by one thread.
struct Work {
  std::vector<Promise> files;
  std::vector<Stretch> stretches;

  uint64_t bytes() const {
    uint64_t sum = 0;  // cannot overflow: the parser bounds each size by what a file can hold
    for (const Promise& file : files) sum += file.size;
    for (const Stretch& stretch : stretches) sum += stretch.bytes;
    return sum;
  }
};

Work WorkOf(const Split& split, const LoadOptions& options) {
  Work work;
  const auto add = [&](const Bundles& bundles) {
    for (const manifest::BundleRecord* bundle : bundles) {
      if (options.verify_files || bundle->tensors.empty()) {  // a head is only metadata
        work.files.push_back({&bundle->file, bundle->size, &bundle->sha256});
      } else {
        AddStretches(*bundle, work.stretches);
      }
    }
  };
  add(split.parts.head);
  add(split.parts.trunk);
  add(split.parts.routers);
  for (const SelectedSet& set : split.parts.sets) add(set.files);
  if (split.manifest.is_gguf()) return work;
  for (const manifest::AssetRecord& asset : split.manifest.assets)
    work.files.push_back({&asset.file, asset.size, &asset.sha256});
  return work;
}

}  // namespace

Status CheckDigests(const Split& split, const LoadOptions& options) {
  SHARD_CHECK(CheckVersions(split));
  const Work work = WorkOf(split, options);
  ProgressCounter progress(options.progress, work.bytes());
  const size_t files = work.files.size();
  return ParallelFor(files + work.stretches.size(), ThreadsForFiles(options.jobs), [&](size_t i) {
    return i < files ? CheckFile(*split.tree, work.files[i], progress)
                     : CheckStretch(*split.tree, work.stretches[i - files], progress);
  });
}

}  // namespace moepack::runtime
