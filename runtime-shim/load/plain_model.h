// Loads models that are not split: a GGUF, a Hugging Face checkpoint, or an assembled node, which
// is one of these.
#pragma once

#include <cstdint>
#include <set>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "libshard/base/text/expert_ids.h"
#include "libshard/convert/gguf_model.h"
#include "runtime-shim/load/gguf_blocks.h"
#include "runtime-shim/load/tensor_placer.h"
#include "runtime-shim/model/weights.h"

namespace moepack::runtime {

// Places a GGUF view of a whole model in memory: trunk and sets of experts go through one
// TensorPlacer.

// A view, and which of its blocks run.
struct RunningModel {
  const GgufModel& gguf;
  const RunningBlocks& blocks;
};

// Places everything except routed experts, and sets the layers' expert counts.
Status PlaceTrunk(const RunningModel& model, const SourceBytes& source, TensorPlacer& placer,
                  Weights& out);
// Places the experts `set.experts_by_layer` of each layer. A layer without ids gets no tensors.
Status PlaceExperts(const RunningModel& model, const SourceBytes& source, TensorPlacer& placer,
                    ExpertSet& set, LoadedPart& counts);
// Places the whole routers of these layers as the set's own.
Status PlaceRouters(const RunningModel& model, const SourceBytes& source,
                    const std::set<uint32_t>& layers, TensorPlacer& placer, ExpertSet& set,
                    LoadedPart& counts);
// Returns all ids of all layers that run.
LayerExperts AllExperts(const RunningModel& model);

Result<Weights> LoadPlainModel(const moepack::Source& source, const LoadOptions& options);

}  // namespace moepack::runtime
