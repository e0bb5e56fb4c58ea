#include "runtime-shim/load/safetensors_parts.h"

#include "libshard/base/text/text.h"
#include "runtime-shim/load/placed_model.h"
#include "runtime-shim/load/restored_checkpoint.h"

namespace moepack::runtime {
namespace {

void KeepFiles(const std::vector<OpenedPart>& files,
               std::vector<std::shared_ptr<const void>>& memory) {
  for (const OpenedPart& part : files) memory.push_back(part.file);
}

}  // namespace

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

}  // namespace moepack::runtime
