// Compares the digests of what is loaded. Unlike for verify, parts that are not loaded may be
// absent or damaged.
#include "libshard/base/byte_progress.h"
#include "libshard/base/files/scan_file.h"
#include "libshard/base/parallel.h"
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

Status CheckFile(const SourceTree& tree, const Promise& promise, ByteProgress& progress) {
  SHARD_TRY(const ByteSourcePtr source, tree.Open(*promise.file));
  if (source->size() != promise.size)
    return Differs(source->name() + ": size", Cat(promise.size, " bytes"), source->size());
  SHARD_TRY(const std::string sha256,
            Sha256Of(*source, [&](uint64_t bytes) { progress.Add(bytes); }));
  if (sha256 != *promise.sha256)
    return Differs(source->name() + ": sha256", *promise.sha256, sha256);
  return Ok();
}

}  // namespace

Status CheckDigests(const Split& split, const LoadOptions& options) {
  SHARD_CHECK(CheckVersions(split));
  std::vector<Promise> promises;
  const auto add = [&](const Bundles& bundles) {
    for (const manifest::BundleRecord* bundle : bundles) {
      promises.push_back({&bundle->file, bundle->size, &bundle->sha256});
    }
  };
  add(split.parts.head);
  add(split.parts.trunk);
  add(split.parts.routers);
  for (const SelectedSet& set : split.parts.sets) add(set.files);
  if (!split.manifest.is_gguf()) {
    for (const manifest::AssetRecord& asset : split.manifest.assets) {
      promises.push_back({&asset.file, asset.size, &asset.sha256});
    }
  }
  uint64_t total = 0;  // cannot overflow: the parser bounds each size by what a file can hold
  for (const Promise& promise : promises) total += promise.size;
  ByteProgress progress(options.progress, total);
  return ParallelFor(promises.size(), ThreadsForFiles(options.jobs),
                     [&](size_t i) { return CheckFile(*split.tree, promises[i], progress); });
}

}  // namespace moepack::runtime
