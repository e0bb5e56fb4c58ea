#include "runtime-shim/load/gguf_parts.h"

#include <deque>
#include <map>
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
                     manifest::kDamagedHint};
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
                   manifest::kDamagedHint};
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
  struct Router {
    TensorEntry entry;
    ByteView bytes;
  };
  std::map<std::string, Router> routers_;  // whole
  std::deque<SourceBytes> sources_;        // one per tensor, until the placer has run
};

}  // namespace

Status LoadGgufParts(const Split& split, const LoadOptions& options, Weights& out) {
  return GgufPartsLoader(split, options, out).Load();
}

}  // namespace moepack::runtime
