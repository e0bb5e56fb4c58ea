#include "runtime-shim/load/part_selection.h"

#include <algorithm>

#include "libshard/base/digest.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/scan_file.h"
#include "libshard/base/parallel.h"
#include "libshard/base/progress.h"
#include "libshard/base/text/text.h"
#include "manifest/document/group_range.h"
#include "manifest/document/pull_lock.h"
#include "manifest/document/use_overlay.h"
#include "manifest/write/open_bundle.h"

namespace moepack::runtime {
namespace {

constexpr const char* kOnlyHint =
    "this distribution holds only some parts; add them with shard-experts --only";

Bundles FilesOf(const manifest::Manifest& manifest, Role role,
                std::optional<uint32_t> group = std::nullopt) {
  Bundles files;
  for (const manifest::BundleRecord& bundle : manifest.bundles) {
    if (bundle.role == role && bundle.group == group) files.push_back(&bundle);
  }
  return files;
}

Error Absent(const Split& split, const std::string& part) {
  return Error{Code::kNotFound,
               Cat(split.path, ": ", part, ": expected a file in the manifest, found none"),
               kOnlyHint};
}

// Also true for a group without experts, which has no file.
bool IsThere(const Split& split, uint32_t group) {
  const GroupPlan& plan = split.manifest.plan.groups[group];
  return CountIds(HeldBy(plan)) == 0 || !FilesOf(split.manifest, Role::kGroup, group).empty();
}

ExpertIds GroupsThere(const Split& split) {
  ExpertIds groups;
  for (uint32_t group = 0; group < split.manifest.plan.groups.size(); ++group) {
    if (IsThere(split, group)) groups.push_back(group);
  }
  return groups;
}

std::set<uint32_t> RefittedLayers(const Split& split, uint32_t group) {
  std::set<uint32_t> layers;
  if (!split.manifest.refit) return layers;
  for (const RefitOutcome& outcome : split.manifest.refit->outcomes)
    if (outcome.accepted && outcome.group == group) layers.insert(outcome.layer);
  return layers;
}

Status SelectGroups(std::vector<uint32_t> wanted, Split& split) {
  const ExpertIds there = GroupsThere(split);
  const Plan& plan = split.manifest.plan;
  for (const uint32_t group : wanted)
    SHARD_CHECK(manifest::CheckGroup(split.path, group, plan.groups.size()));
  if (there.empty()) return Absent(split, "groups");
  if (wanted.empty()) wanted = there;
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  for (const uint32_t group : wanted) {
    if (!Contains(there, group)) {
      return Error{Code::kNotFound,
                   Cat(split.path, ": group: expected ", FormatChoice(there), ", found ", group),
                   kOnlyHint};
    }
    split.parts.sets.push_back({Cat("group ", group), group, false,
                                FilesOf(split.manifest, Role::kGroup, group),
                                HeldBy(plan.groups[group]), RefittedLayers(split, group)});
  }
  for (uint32_t group = 0; group < plan.groups.size(); ++group) {
    if (IsThere(split, group)) continue;
    split.parts.notes.push_back(Cat("group ", group, " is not in this distribution"));
  }
  return Ok();
}

// An overlay's directory is named after its version.
bool HasOverlayDirectory(const Split& split, const std::string& version) {
  const auto files = split.tree->List(Cat("overlays/", version), "");
  return files && !files->empty();
}

// Drops records of other overlays, so nothing may point to records yet.
Status UseOverlay(const std::string& version, Split& split) {
  Status used = manifest::UseOverlay(split.path, version, split.manifest);
  if (used) return used;
  Error error = std::move(used).error();
  if (HasOverlayDirectory(split, version))
    error.hint = "its files are there, but the manifest is older: get the manifest again";
  return error;
}

// Reduces the manifest to the overlay that was named, or to the one that nodes have by default.
Status ChooseOverlay(const LoadOptions& options, Split& split) {
  if (!options.overlay) return Ok();
  if (!options.overlay_version.empty()) return UseOverlay(options.overlay_version, split);
  SHARD_TRY(const manifest::DefaultOverlay chosen,
            manifest::OverlayByDefault(*split.tree, split.manifest.plan));
  if (!chosen.note.empty()) split.parts.notes.push_back(chosen.note);
  if (!chosen.none) return UseOverlay(chosen.version, split);
  manifest::UseNoOverlay(split.manifest);
  return Ok();
}

// The set contains the overlay's fill for all groups, too; a node's mask excludes that of others.
Status AddOverlay(Split& split) {
  const OverlayPlan& overlay = *split.manifest.plan.current_overlay();
  SelectedSet set{"overlay " + overlay.version,
                  std::nullopt,
                  true,
                  FilesOf(split.manifest, Role::kOverlay),
                  HeldBy(overlay),
                  {}};
  if (set.files.empty()) return Absent(split, set.label);
  split.parts.sets.push_back(std::move(set));
  return Ok();
}

// Selects the trunk. For GGUF that includes the head, which has the model's metadata, and the
// routers, which have files of their own.
Status AddTrunk(Split& split) {
  SelectedParts& parts = split.parts;
  const bool gguf = split.manifest.is_gguf();
  if (gguf) parts.head = FilesOf(split.manifest, Role::kHead);
  if (gguf && parts.head.empty()) return Absent(split, "head");
  parts.trunk = FilesOf(split.manifest, Role::kTrunk);
  if (parts.trunk.empty()) return Absent(split, "trunk");
  if (!gguf) return Ok();
  parts.routers = FilesOf(split.manifest, Role::kRouters);
  if (parts.routers.empty()) return Absent(split, "routers");
  return Ok();
}

}  // namespace

Status SelectParts(const LoadOptions& options, Split& split) {
  SHARD_CHECK(ChooseOverlay(options, split));
  SHARD_CHECK(AddTrunk(split));
  SHARD_CHECK(SelectGroups(options.groups, split));
  const bool has = !split.manifest.plan.overlays.empty();
  return options.overlay && has ? AddOverlay(split) : Ok();
}

// Checks the digests of what is loaded. Unlike in verify, parts that are not loaded may be absent
// or corrupt.
//
// A part with tensors is compared tensor by tensor: XXH3-128 is several times as fast as a disk,
// and several threads read one file, while SHA-256 of a file is one long chain. What is between the
// tensors is not loaded, and the header is compared field by field (opened_parts.h). Neither digest
// proves who wrote the manifest; signatures and registries use SHA-256, which `verify` and
// `verify_files` check.

namespace {

// What the manifest says about a file.
struct StatedContent {
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
               manifest::kCorruptHint};
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

Result<ByteSourcePtr> OpenStated(const SourceTree& tree, const std::string& file, uint64_t size) {
  SHARD_TRY(ByteSourcePtr source, manifest::OpenBundleFile(tree, file));
  if (source->size() != size)
    return Differs(source->name() + ": size", Cat(size, " bytes"), source->size());
  return source;
}

Status CheckFile(const SourceTree& tree, const StatedContent& stated, ProgressCounter& progress) {
  SHARD_TRY(const ByteSourcePtr source, OpenStated(tree, *stated.file, stated.size));
  SHARD_TRY(const std::string sha256,
            Sha256Of(*source, [&](uint64_t bytes) { progress.Add(bytes); }));
  if (sha256 != *stated.sha256) return Differs(source->name() + ": sha256", *stated.sha256, sha256);
  return Ok();
}

Status CheckStretch(const SourceTree& tree, const Stretch& stretch, ProgressCounter& progress) {
  // Opens its own file, because the system reads ahead for each open file.
  SHARD_TRY(const ByteSourcePtr source,
            OpenStated(tree, stretch.bundle->file, stretch.bundle->size));
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
  std::vector<StatedContent> files;
  std::vector<Stretch> stretches;

  uint64_t bytes() const {
    uint64_t sum = 0;  // cannot overflow: the parser bounds each size by what a file can hold
    for (const StatedContent& file : files) sum += file.size;
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
