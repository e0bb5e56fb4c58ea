#include "runtime-shim/masking/routing_trace.h"

#include <algorithm>
#include <set>

#include "libshard/base/text/text.h"
#include "runtime-shim/masking/compare.h"

namespace moepack::runtime {
namespace {

template <class T>
std::vector<T> Slice(std::span<const T> values, size_t index, size_t width) {
  if (values.empty()) return {};
  const auto part = values.subspan(index * width, width);
  return {part.begin(), part.end()};
}

bool Same(std::span<const float> expected, std::span<const float> actual, double tolerance) {
  if (expected.size() != actual.size()) return false;
  const LogitsDifference difference = CompareLogits(expected, actual);
  return tolerance == 0 ? difference.same_bits : difference.relative <= tolerance;
}

std::string IdList(const std::vector<uint32_t>& ids) {
  std::string text;
  for (const uint32_t id : ids) text += Cat(text.empty() ? "" : ",", id);
  return text;
}

// Says how two steps differ; "" if they agree.
std::string Difference(const RoutingTrace::Step& expected, const RoutingTrace::Step& actual,
                       double tolerance) {
  if (!Same(expected.logits, actual.logits, tolerance))
    return "the router's logits differ, so the cause lies before this layer's experts";
  if (expected.chosen.ids != actual.chosen.ids)
    return Cat("experts ", IdList(expected.chosen.ids), " were expected, ",
               IdList(actual.chosen.ids), " chosen");
  if (!Same(expected.chosen.weights, actual.chosen.weights, tolerance))
    return "the gates of the chosen experts differ";
  for (size_t i = 0; i < std::min(expected.norms.size(), actual.norms.size()); ++i) {
    const float ours[] = {expected.norms[i], expected.peaks[i]};
    const float theirs[] = {actual.norms[i], actual.peaks[i]};
    if (!Same(ours, theirs, tolerance))
      return Cat("expert ", expected.chosen.ids[i], " puts out other values");
  }
  return "";
}

}  // namespace

void RoutingTrace::Observe(const RoutedBatch& batch) {
  const size_t top_k = batch.chosen.empty() ? 0 : batch.chosen[0].ids.size();
  for (uint32_t token = 0; token < batch.tokens; ++token) {
    steps_[{batch.first_position + token, batch.layer}] = {
        Slice(batch.logits, token, batch.expert_count), batch.chosen[token],
        Slice(batch.output_norms, token, top_k), Slice(batch.output_peaks, token, top_k)};
  }
}

LayerExperts RoutingTrace::Used() const {
  std::map<uint32_t, std::set<uint32_t>> used;
  for (const auto& [where, step] : steps_)
    used[where.second].insert(step.chosen.ids.begin(), step.chosen.ids.end());
  LayerExperts experts_by_layer;
  for (const auto& [layer, ids] : used) experts_by_layer[layer].assign(ids.begin(), ids.end());
  return experts_by_layer;
}

std::optional<RoutingDifference> FirstDifference(const RoutingTrace& expected,
                                                 const RoutingTrace& actual, double tolerance) {
  for (const auto& [where, step] : expected.steps()) {
    const auto other = actual.steps().find(where);
    if (other == actual.steps().end()) continue;
    std::string what = Difference(step, other->second, tolerance);
    if (!what.empty()) return RoutingDifference{where.first, where.second, std::move(what)};
  }
  return std::nullopt;
}

}  // namespace moepack::runtime
