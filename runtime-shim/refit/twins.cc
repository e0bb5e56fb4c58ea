#include "runtime-shim/refit/twins.h"

#include <algorithm>

#include "libshard/refit/refit_store.h"

namespace moepack::runtime {
namespace {

bool SameWeights(const Calibration& text, uint32_t a, uint32_t b) {
  return std::all_of(text.weights.begin(), text.weights.end(), [&](const auto& session) {
    return session.empty() || session[a] == session[b];
  });
}

}  // namespace

bool HoldSameExperts(const Plan& plan, uint32_t a, uint32_t b) {
  return std::all_of(plan.layers.begin(), plan.layers.end(), [&](const auto& layer) {
    return Eligible(plan, a, layer.first) == Eligible(plan, b, layer.first) &&
           RefitSlots(plan, a, layer.first) == RefitSlots(plan, b, layer.first);
  });
}

std::vector<uint32_t> FirstTwins(const Plan& plan, const Calibration& text) {
  std::vector<uint32_t> twins;
  for (uint32_t group = 0; group < plan.groups.size(); ++group) {
    // Groups that hold the same experts and weigh the text alike would get the same refit.
    uint32_t twin = 0;
    while (twin < group && !(HoldSameExperts(plan, twin, group) && SameWeights(text, twin, group)))
      ++twin;
    twins.push_back(twin);
  }
  return twins;
}

}  // namespace moepack::runtime
