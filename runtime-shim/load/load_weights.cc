#include <deque>
#include <map>
#include <set>
#include <string_view>

#include "libshard/base/files/local_tree.h"
#include "libshard/base/result.h"
#include "libshard/base/text/text.h"
#include "libshard/convert/gguf_cut.h"
#include "libshard/model/gguf_experts.h"
#include "libshard/refit/node_top_k.h"
#include "manifest/document/file_names.h"
#include "manifest/write/open_bundle.h"
#include "runtime-shim/load/gguf_blocks.h"
#include "runtime-shim/load/opened_parts.h"
#include "runtime-shim/load/part_selection.h"
#include "runtime-shim/load/plain_model.h"
#include "runtime-shim/load/restored_checkpoint.h"
#include "runtime-shim/load/tensor_placer.h"
#include "runtime-shim/model/weights.h"

namespace moepack::runtime {
namespace {

// Maps the parts of a GGUF distribution.

class GgufPartsLoader {
 public:
  GgufPartsLoader(const Split& split, const LoadOptions& options, Weights& out)
      : split_(split), options_(options), out_(out), opener_(split), placer_(split.path) {}

  Status Load() {
    SHARD_TRY(const std::vector<OpenedPart> head, opener_.Open(split_.parts.head));
    SHARD_TRY(blocks_,
              RunningBlocks::Of(head[0].bundle.source.path.string(), head[0].bundle.metadata));
    out_.metadata = head[0].bundle.metadata;
    SHARD_CHECK(AddWhole("trunk", split_.parts.trunk));
    SHARD_CHECK(AddWhole("routers", split_.parts.routers));
    for (const SelectedSet& set : split_.parts.sets) SHARD_CHECK(AddSet(set));
    blocks_.AddNote(out_);
    return placer_.Run(options_);
  }

 private:
  Status AddWhole(const char* label, const Bundles& files) {
    SHARD_TRY(const std::vector<OpenedPart> parts, opener_.Open(files));
    LoadedPart counts{.label = label};
    const bool whole_routers = &files == &split_.parts.routers;
    for (const OpenedPart& part : parts) {
      out_.memory.push_back(part.file);
      for (const manifest::PartTensor& tensor : part.bundle.tensors) {
        if (!blocks_.Runs(tensor.entry.name)) continue;
        AddRouter(tensor.entry.name, tensor.entry.shape, out_);
        if (whole_routers) routers_[tensor.entry.name] = {tensor.entry, part.Bytes(tensor)};
        SHARD_CHECK(Place(part, tensor, {out_.trunk, out_.memory, counts}));
      }
    }
    out_.parts.push_back(counts);
    return Ok();
  }

  Status AddSet(const SelectedSet& selected) {
    SHARD_TRY(const std::vector<OpenedPart> parts, opener_.Open(selected.files));
    ExpertSet& set = out_.sets.emplace_back();
    set.label = selected.label;
    set.group = selected.group;
    set.overlay = selected.overlay;
    for (const auto& [layer, ids] : selected.experts_by_layer) {
      if (blocks_.RunsLayer(layer) && !ids.empty()) set.experts_by_layer[layer] = ids;
    }
    LoadedPart counts{.label = set.label};
    for (const OpenedPart& part : parts) {
      set.memory.push_back(part.file);
      SHARD_CHECK(AddExperts(part, selected.refitted, set, counts));
    }
    out_.parts.push_back(counts);
    return CheckLayers(set);
  }

  // Files of experts also have router rows, for assembling nodes. Here the whole routers are used
  // instead, except in layers that were refitted.
  Status AddExperts(const OpenedPart& part, const std::set<uint32_t>& refitted, ExpertSet& set,
                    LoadedPart& counts) {
    FamilyMatcher matcher(GgufFamily(), split_.manifest.model.layers);
    for (const manifest::PartTensor& tensor : part.bundle.tensors) {
      const TensorClass found = matcher.Classify(tensor.entry.name);
      const bool expert = found.rule != nullptr && found.rule->part == moepack::Part::kExpert;
      if (!found.layer || !blocks_.Runs(tensor.entry.name)) continue;
      if (!expert && !refitted.contains(*found.layer)) continue;
      const ExpertIds& ids = moepack::IdsOf(set.experts_by_layer, *found.layer);
      if (ids != tensor.record->expert_ids || tensor.entry.shape.empty() ||
          tensor.entry.shape[0] != ids.size()) {
        return Error{Code::kMismatch,
                     Cat(part.bundle.source.path.string(), ": tensor ", Quoted(tensor.entry.name),
                         ": expected experts \"", FormatIds(ids), "\" as the plan says, found \"",
                         FormatIds(tensor.record->expert_ids), "\" of shape ",
                         FormatShape(tensor.entry.shape)),
                     manifest::kCorruptHint};
      }
      SHARD_CHECK(expert ? Place(part, tensor, {set.tensors, set.memory, counts})
                         : PlaceRouter(part, tensor, {set.routers, set.memory, counts}));
    }
    return Ok();
  }

  // Puts a group's rows into the whole router, in place of the existing rows of these experts.
  Status PlaceRouter(const OpenedPart& part, const manifest::PartTensor& rows,
                     const PlacedPart& to) {
    const auto found = routers_.find(rows.entry.name);
    const uint64_t held = rows.record->expert_ids.size();
    const bool fits =
        found != routers_.end() && found->second.entry.format == rows.entry.format &&
        !found->second.entry.shape.empty() && found->second.entry.shape[0] > 0 &&
        found->second.bytes.size() / found->second.entry.shape[0] * held == rows.entry.bytes &&
        rows.record->expert_ids.back() < found->second.entry.shape[0];
    if (!fits)
      return Error{Code::kMismatch,
                   Cat(part.bundle.source.path.string(), ": tensor ", Quoted(rows.entry.name),
                       ": expected rows of the router of the same name, found others"),
                   manifest::kCorruptHint};
    const Router& router = found->second;
    const uint64_t row = rows.entry.bytes / held;
    SourceBytes& source = sources_.emplace_back();
    for (uint64_t id = 0; id < router.entry.shape[0]; ++id)
      source.Add(0, id * row, router.bytes.subspan(id * row, row));
    const ByteView own = part.Bytes(rows);
    for (uint64_t i = 0; i < held; ++i)
      source.Add(0, rows.record->expert_ids[i] * row, own.subspan(i * row, row));
    OutputTensor whole;
    whole.entry = router.entry;
    whole.sources = {{0, 0, router.entry.bytes}};
    return placer_.Place(std::move(whole), source, to);
  }

  // Checks that a layer with ids has tensors.
  Status CheckLayers(const ExpertSet& set) const {
    std::set<uint32_t> there;
    for (const HostTensor& tensor : set.tensors) there.insert(*BlockOf(tensor.name));
    for (const auto& [layer, ids] : set.experts_by_layer) {
      if (there.contains(layer)) continue;
      return Error{Code::kMismatch,
                   Cat(split_.path, ": ", set.label, ": layer ", layer, ": expected experts ",
                       FormatIds(ids), " as the plan says, found none"),
                   manifest::kCorruptHint};
    }
    return Ok();
  }

  Status Place(const OpenedPart& part, const manifest::PartTensor& tensor, const PlacedPart& to) {
    SourceBytes& source = sources_.emplace_back();
    source.Add(0, 0, part.Bytes(tensor));
    OutputTensor whole;
    whole.entry = tensor.entry;
    whole.sources = {{0, 0, tensor.entry.bytes}};
    return placer_.Place(std::move(whole), source, to);
  }

  const Split& split_;
  const LoadOptions& options_;
  Weights& out_;
  PartOpener opener_;
  TensorPlacer placer_;
  RunningBlocks blocks_;
  struct Router {
    TensorEntry entry;
    ByteView bytes;
  };
  std::map<std::string, Router> routers_;  // whole
  std::deque<SourceBytes> sources_;        // one per tensor, until the placer has run
};

// Adds trunk (with whole routers), sets, metadata and the sizes of parts to `out`.
Status LoadGgufParts(const Split& split, const LoadOptions& options, Weights& out) {
  return GgufPartsLoader(split, options, out).Load();
}

// Loads the parts of a safetensors distribution and converts them.

void KeepFiles(const std::vector<OpenedPart>& files,
               std::vector<std::shared_ptr<const void>>& memory) {
  for (const OpenedPart& part : files) memory.push_back(part.file);
}

// Adds trunk, sets, metadata and the sizes of parts to `out`.
Status LoadSafetensorsParts(const Split& split, const LoadOptions& options, Weights& out) {
  SHARD_TRY(const RestoredCheckpoint model, RestoredCheckpoint::Open(split, options.model));
  SHARD_TRY(const RunningBlocks blocks, RunningBlocks::Of(split.path, model.gguf().metadata));
  const RunningModel running{model.gguf(), blocks};
  TensorPlacer placer(split.path);
  out.metadata = model.gguf().metadata;
  out.no_tokenizer = model.gguf().no_tokenizer;
  out.notes.insert(out.notes.end(), model.notes().begin(), model.notes().end());
  blocks.AddNote(out);
  KeepFiles(model.trunk(), out.memory);
  SHARD_CHECK(PlaceTrunk(running, model.trunk_bytes(), placer, out));
  for (size_t i = 0; i < split.parts.sets.size(); ++i) {
    const SelectedSet& selected = split.parts.sets[i];
    ExpertSet& set = out.sets.emplace_back();
    set.label = selected.label;
    set.group = selected.group;
    set.overlay = selected.overlay;
    for (const auto& [layer, ids] : selected.experts_by_layer) {
      if (blocks.RunsLayer(layer) && !ids.empty()) set.experts_by_layer[layer] = ids;
    }
    KeepFiles(model.files(i), set.memory);
    // A tensor that experts share with their layer may be in the trunk's files.
    KeepFiles(model.trunk(), set.memory);
    LoadedPart counts{.label = set.label};
    SHARD_CHECK(PlaceExperts(running, model.bytes(i), placer, set, counts));
    SHARD_CHECK(PlaceRouters(running, model.bytes(i), selected.refitted, placer, set, counts));
    out.parts.push_back(counts);
  }
  return placer.Run(options);
}

Result<bool> IsDistribution(const moepack::Source& source) {
  if (!source.file.empty()) return false;
  return source.tree->Has(manifest::kManifestFile);
}

Status LoadParts(const Split& split, const LoadOptions& options, Weights& out) {
  if (options.verify) SHARD_CHECK(CheckDigests(split, options));
  out.path = split.path;
  return split.manifest.is_gguf() ? LoadGgufParts(split, options, out)
                                  : LoadSafetensorsParts(split, options, out);
}

// Whoever asked knows whether other groups can be chosen.
Status HintAtPull(Status loaded, const Split& split, const LoadOptions& options) {
  if (loaded || loaded.error().code != Code::kNotFound || options.not_pulled_hint.empty())
    return loaded;
  SHARD_TRY(const bool pulled, split.tree->Has(manifest::kPullLockFile));
  if (!pulled) return loaded;
  Error error = std::move(loaded).error();
  error.hint = manifest::NotPulledHint(*split.tree, options.not_pulled_hint);
  return error;
}

// Checks that plan and routers have the same numbers of experts.
Status CheckRouters(const Weights& weights) {
  for (const auto& [layer, expert_count] : weights.plan->layers) {
    const auto found = weights.moe_layers.find(layer);
    const uint32_t rows = found == weights.moe_layers.end() ? 0 : found->second;
    if (rows == expert_count) continue;
    return Error{Code::kMismatch,
                 Cat(weights.path, ": router of layer ", layer, ": expected ", expert_count,
                     " rows as the plan has experts, found ", rows),
                 manifest::kCorruptHint};
  }
  return Ok();
}

Status CheckNames(const std::string& where, const std::vector<HostTensor>& tensors) {
  std::set<std::string_view> names;
  for (const HostTensor& tensor : tensors) {
    if (names.insert(tensor.name).second) continue;
    return Error{Code::kCorrupt,
                 Cat(where, ": tensor ", Quoted(tensor.name), ": expected once, found twice")};
  }
  return Ok();
}

Status CheckSets(const Weights& weights) {
  SHARD_CHECK(CheckNames(weights.path, weights.trunk));
  for (const ExpertSet& set : weights.sets)
    SHARD_CHECK(CheckNames(Cat(weights.path, ": ", set.label), set.tensors));
  return Ok();
}

Result<Split> OpenSplit(const moepack::Source& source) {
  Split split;
  split.tree = source.tree;
  split.path = source.named.string();
  SHARD_TRY(split.manifest, manifest::ReadManifest(*source.tree));
  return split;
}

// Nodes of a refit may use a different number of experts from the model.
Status TakeNodeTopK(const Split& split, Weights& out) {
  if (!split.manifest.refit) return Ok();
  SHARD_TRY(const uint32_t top_k, NodeTopK(split.path, *split.manifest.refit));
  return top_k > 0 ? SetUsedExperts(split.path, top_k, out.metadata) : Ok();
}

Result<Weights> LoadDistribution(const moepack::Source& source, const LoadOptions& options) {
  SHARD_TRY(Split split, OpenSplit(source));
  SHARD_CHECK(SelectParts(options, split));
  Weights out;
  out.notes = split.parts.notes;
  out.model_version = split.manifest.versions.model;
  out.shard_version = split.manifest.versions.shard;
  out.replica_version = split.manifest.versions.replica;
  out.refit_version = split.manifest.versions.refit;
  SHARD_CHECK(HintAtPull(LoadParts(split, options, out), split, options));
  SHARD_CHECK(TakeNodeTopK(split, out));
  SHARD_TRY(const RunningBlocks blocks, RunningBlocks::Of(split.path, out.metadata));
  out.plan = blocks.Trim(std::move(split.manifest.plan));
  SHARD_CHECK(CheckRouters(out));
  return out;
}

}  // namespace

Result<std::shared_ptr<const Weights>> LoadWeights(const std::string& source,
                                                   const LoadOptions& options) {
  SHARD_TRY(const moepack::Source local, LocalSource(source));
  return LoadWeights(local, options);
}

Result<std::shared_ptr<const Weights>> LoadWeights(const moepack::Source& source,
                                                   const LoadOptions& options) {
  SHARD_TRY(const bool distribution, IsDistribution(source));
  Result<Weights> loaded =
      distribution ? LoadDistribution(source, options) : LoadPlainModel(source, options);
  if (!loaded) return manifest::NameCorrupt(source.named.string(), std::move(loaded).error());
  Weights weights = *std::move(loaded);
  SHARD_CHECK(CheckSets(weights));
  return std::make_shared<const Weights>(std::move(weights));
}

}  // namespace moepack::runtime
