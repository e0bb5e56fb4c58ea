#include "runtime-shim/load/gguf_parts.h"

#include <deque>
#include <set>

#include "libshard/base/text/text.h"
#include "libshard/model/gguf_experts.h"
#include "runtime-shim/load/gguf_blocks.h"
#include "runtime-shim/load/opened_parts.h"
#include "runtime-shim/load/tensor_placer.h"

namespace moepack::runtime {

namespace {

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
    for (const OpenedPart& part : parts) {
      out_.memory.push_back(part.file);
      for (const manifest::PartTensor& tensor : part.bundle.tensors) {
        if (!blocks_.Runs(tensor.entry.name)) continue;
        AddRouter(tensor.entry.name, tensor.entry.shape, out_);
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
      if (blocks_.Runs(Cat("blk.", layer)) && !ids.empty()) set.experts_by_layer[layer] = ids;
    }
    LoadedPart counts{.label = set.label};
    for (const OpenedPart& part : parts) {
      set.memory.push_back(part.file);
      SHARD_CHECK(AddExperts(part, set, counts));
    }
    out_.parts.push_back(counts);
    return CheckLayers(set);
  }

  // Files of experts also have router rows, for assembling nodes. Here the whole routers are used
  // instead.
  Status AddExperts(const OpenedPart& part, ExpertSet& set, LoadedPart& counts) {
    FamilyMatcher matcher(GgufFamily(), split_.manifest.model.layers);
    for (const manifest::PartTensor& tensor : part.bundle.tensors) {
      const TensorClass found = matcher.Classify(tensor.entry.name);
      const bool expert = found.rule != nullptr && found.rule->part == moepack::Part::kExpert;
      if (!expert || !found.layer || !blocks_.Runs(tensor.entry.name)) continue;
      const ExpertIds& ids = moepack::IdsOf(set.experts_by_layer, *found.layer);
      if (ids != tensor.record->expert_ids || tensor.entry.shape.empty() ||
          tensor.entry.shape[0] != ids.size()) {
        return Error{Code::kMismatch,
                     Cat(part.bundle.source.path.string(), ": tensor ", Quoted(tensor.entry.name),
                         ": expected experts \"", FormatIds(ids), "\" as the plan says, found \"",
                         FormatIds(tensor.record->expert_ids), "\" of shape ",
                         FormatShape(tensor.entry.shape)),
                     manifest::kDamagedHint};
      }
      SHARD_CHECK(Place(part, tensor, {set.tensors, set.memory, counts}));
    }
    return Ok();
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
                   manifest::kDamagedHint};
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
  std::deque<SourceBytes> sources_;  // one per tensor, until the placer has run
};

}  // namespace

Status LoadGgufParts(const Split& split, const LoadOptions& options, Weights& out) {
  return GgufPartsLoader(split, options, out).Load();
}

}  // namespace moepack::runtime
