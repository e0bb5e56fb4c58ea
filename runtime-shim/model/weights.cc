#include "runtime-shim/model/weights.h"

#include <algorithm>

namespace moepack::runtime {

uint64_t ExpertSet::bytes() const {
  uint64_t sum = 0;
  for (const HostTensor& tensor : tensors) sum += tensor.bytes.size();
  for (const HostTensor& router : routers) sum += router.bytes.size();
  return sum;
}

uint64_t LaterExperts::widest() const {
  uint64_t widest = 0;
  for (const HostTensor& tensor : tensors) {
    if (tensor.name.ends_with("ffn_down_exps.weight"))
      widest = std::max(widest, tensor.shape.back());
  }
  return widest;
}

bool HoldsExpertIds(std::string_view name) { return name.ends_with(".ffn_gate_tid2eid.weight"); }

const HostTensor* Weights::FindTrunk(std::string_view name) const {
  const auto found = std::find_if(trunk.begin(), trunk.end(),
                                  [&](const HostTensor& tensor) { return tensor.name == name; });
  return found == trunk.end() ? nullptr : &*found;
}

const ExpertSet* Weights::FindGroup(uint32_t group) const {
  const auto found = std::find_if(sets.begin(), sets.end(),
                                  [&](const ExpertSet& set) { return set.group == group; });
  return found == sets.end() ? nullptr : &*found;
}

const ExpertSet* Weights::FindOverlay() const {
  const auto found =
      std::find_if(sets.begin(), sets.end(), [](const ExpertSet& set) { return set.overlay; });
  return found == sets.end() ? nullptr : &*found;
}

LayerExperts EligibleExperts(const Weights& weights, std::optional<uint32_t> group, bool overlay) {
  LayerExperts eligible;
  if (weights.plan && group) {
    const bool loaded = overlay && weights.FindOverlay() != nullptr;
    const OverlayPlan* with = loaded ? weights.plan->current_overlay() : nullptr;
    for (const auto& [layer, expert_count] : weights.plan->layers)
      eligible[layer] = Eligible(*weights.plan, with, *group, layer);
    return eligible;
  }
  for (const ExpertSet& set : weights.sets) {
    for (const auto& [layer, ids] : set.experts_by_layer) {
      eligible[layer] = Union(eligible[layer], ids);
    }
  }
  return eligible;
}

}  // namespace moepack::runtime
