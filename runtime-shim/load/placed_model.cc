#include "runtime-shim/load/placed_model.h"

#include <numeric>

#include "libshard/pack/slice_gguf.h"

namespace moepack::runtime {

Status PlaceTrunk(const RunningModel& model, const SourceBytes& source, TensorPlacer& placer,
                  Weights& out) {
  LoadedPart counts{.label = "trunk"};
  for (const GgufTensor& tensor : model.gguf.tensors) {
    if (IsExpert(tensor) || !model.blocks.Runs(tensor.name)) continue;
    AddRouter(tensor.name, tensor.shape, out);
    SHARD_TRY(OutputTensor whole, EncodeTensor(tensor, tensor.type));
    SHARD_CHECK(placer.Place(std::move(whole), source, {out.trunk, out.memory, counts}));
  }
  out.parts.push_back(counts);
  return Ok();
}

Status PlaceExperts(const RunningModel& model, const SourceBytes& source, TensorPlacer& placer,
                    ExpertSet& set, LoadedPart& counts) {
  for (const GgufTensor& tensor : model.gguf.tensors) {
    if (!IsExpert(tensor) || !model.blocks.Runs(tensor.name)) continue;
    const ExpertIds& ids = moepack::IdsOf(set.experts_by_layer, *BlockOf(tensor.name));
    if (ids.empty()) continue;
    SHARD_TRY(OutputTensor cut, EncodeExperts(tensor, tensor.type, ids));
    SHARD_CHECK(placer.Place(std::move(cut), source, {set.tensors, set.memory, counts}));
  }
  return Ok();
}

Status PlaceRouters(const RunningModel& model, const SourceBytes& source,
                    const std::set<uint32_t>& layers, TensorPlacer& placer, ExpertSet& set,
                    LoadedPart& counts) {
  for (const GgufTensor& tensor : model.gguf.tensors) {
    const bool router = tensor.part == moepack::Part::kRouter && tensor.expert_count > 0;
    if (!router || !layers.contains(*BlockOf(tensor.name)) || !model.blocks.Runs(tensor.name))
      continue;
    SHARD_TRY(OutputTensor whole, EncodeTensor(tensor, tensor.type));
    SHARD_CHECK(placer.Place(std::move(whole), source, {set.routers, set.memory, counts}));
  }
  return Ok();
}

LayerExperts AllExperts(const RunningModel& model) {
  LayerExperts all;
  for (const GgufTensor& tensor : model.gguf.tensors) {
    if (!IsExpert(tensor) || !model.blocks.Runs(tensor.name)) continue;
    ExpertIds& ids = all[*BlockOf(tensor.name)];
    ids.resize(tensor.expert_count);
    std::iota(ids.begin(), ids.end(), 0u);
  }
  return all;
}

}  // namespace moepack::runtime
