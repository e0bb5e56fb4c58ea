// A GGUF view of a whole model, in memory: trunk and sets of experts through one TensorPlacer.
#pragma once

#include "libshard/base/expert_ids.h"
#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"
#include "runtime-shim/load/gguf_blocks.h"
#include "runtime-shim/load/tensor_placer.h"
#include "runtime-shim/model/weights.h"

namespace moepack::runtime {

// A view and the blocks of it that run.
struct RunningModel {
  const GgufModel& gguf;
  const RunningBlocks& blocks;
};

// Everything but routed experts, and the layers' expert counts.
Status PlaceTrunk(const RunningModel& model, const SourceBytes& source, TensorPlacer& placer,
                  Weights& out);
// The experts `set.experts` of each layer; a layer without ids has no tensors in the set.
Status PlaceExperts(const RunningModel& model, const SourceBytes& source, TensorPlacer& placer,
                    ExpertSet& set, LoadedPart& counts);
// All ids of all layers that run.
LayerExperts AllExperts(const RunningModel& model);

}  // namespace moepack::runtime
