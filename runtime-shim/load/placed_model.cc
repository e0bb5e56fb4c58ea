#include "runtime-shim/load/placed_model.h"

#include <numeric>

#include "libshard/pack/slice_gguf.h"

namespace runtime {

shard::Status PlaceTrunk(const RunningModel& model, const SourceBytes& source, TensorPlacer& placer,
                         Weights& out) {
  LoadedPart counts{.label = "trunk"};
  for (const shard::GgufTensor& tensor : model.gguf.tensors) {
    if (IsExpert(tensor) || !model.blocks.Runs(tensor.name)) continue;
    AddRouter(tensor.name, tensor.shape, out);
    SHARD_TRY(shard::OutputTensor whole, shard::EncodeTensor(tensor, tensor.type));
    SHARD_CHECK(placer.Place(std::move(whole), source, {out.trunk, out.memory, counts}));
  }
  out.parts.push_back(counts);
  return shard::Ok();
}

shard::Status PlaceExperts(const RunningModel& model, const SourceBytes& source,
                           TensorPlacer& placer, ExpertSet& set, LoadedPart& counts) {
  for (const shard::GgufTensor& tensor : model.gguf.tensors) {
    if (!IsExpert(tensor) || !model.blocks.Runs(tensor.name)) continue;
    const shard::ExpertIds& ids =
        shard::IdsOf(set.experts, static_cast<uint32_t>(BlockOf(tensor.name)));
    if (ids.empty()) continue;
    SHARD_TRY(shard::OutputTensor cut, shard::EncodeExperts(tensor, tensor.type, ids));
    SHARD_CHECK(placer.Place(std::move(cut), source, {set.tensors, set.memory, counts}));
  }
  return shard::Ok();
}

shard::LayerExperts AllExperts(const RunningModel& model) {
  shard::LayerExperts all;
  for (const shard::GgufTensor& tensor : model.gguf.tensors) {
    if (!IsExpert(tensor) || !model.blocks.Runs(tensor.name)) continue;
    shard::ExpertIds& ids = all[static_cast<uint32_t>(BlockOf(tensor.name))];
    ids.resize(tensor.experts);
    std::iota(ids.begin(), ids.end(), 0u);
  }
  return all;
}

}  // namespace runtime
