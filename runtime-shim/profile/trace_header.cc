#include "runtime-shim/profile/trace_header.h"

#include "libshard/base/text/text.h"

namespace moepack::runtime {
namespace {

// The bytes of one expert of the layer, as stored in the set.
uint64_t ExpertBytes(const ExpertSet& set, uint32_t layer) {
  const std::string prefix = Cat("blk.", layer, ".");
  uint64_t bytes = 0;
  for (const HostTensor& tensor : set.tensors) {
    if (tensor.name.starts_with(prefix)) bytes += tensor.bytes.size();
  }
  return bytes / IdsOf(set.experts_by_layer, layer).size();
}

}  // namespace

TraceHeader TraceHeaderOf(const Weights& weights, const ModelIdentity& model,
                          std::vector<TraceTurn> turns) {
  TraceHeader header;
  header.model = model.name;
  header.architecture = model.architecture;
  header.layers = model.layers;
  header.turns = std::move(turns);
  header.layer_count = model.layers.back().layer + 1;
  for (const MoeLayerShape& layer : model.layers) {
    uint64_t bytes = 0;
    for (const ExpertSet& set : weights.sets) {
      if (bytes == 0 && !IdsOf(set.experts_by_layer, layer.layer).empty())
        bytes = ExpertBytes(set, layer.layer);
    }
    header.expert_bytes.push_back(bytes);
  }
  return header;
}

}  // namespace moepack::runtime
