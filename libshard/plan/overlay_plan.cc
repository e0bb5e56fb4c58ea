// What an overlay holds: the experts listed in a file, or the best by their scores.
#include "libshard/plan/overlay_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "libshard/base/text/text.h"
#include "libshard/plan/overlay_name.h"
#include "libshard/plan/plan_steps.h"

namespace moepack {
namespace {

// {"version": "generalists-1", "layers": {"*": "3,97", "7": "1-2"}}.
Result<OverlayPlan> OverlayFromJson(const std::string& path, const Json& document,
                                    const LayerCounts& counts) {
  SHARD_CHECK(CheckMembers(path, document, {"version", "layers"}));
  const JsonFields fields(document, path);
  OverlayPlan overlay;
  SHARD_TRY(overlay.version, fields.String("version"));
  if (const char* expected = ExpectedOverlayName(overlay.version))
    return fields.Wrong("version", expected);
  SHARD_TRY(const Json* layers, fields.Object("layers"));
  SHARD_TRY(overlay.experts_by_layer, LayerExpertsFromJson(Cat(path, ": layers"), *layers, counts));
  if (CountIds(overlay.experts_by_layer) == 0)
    return fields.Wrong("layers", "at least one expert id");
  return overlay;
}

}  // namespace

Result<OverlayPlan> ReadOverlayFile(const std::string& path, const LayerCounts& layers) {
  SHARD_TRY(const Json document, ReadJsonFile(path));
  return AsUserMistake(OverlayFromJson(path, document, layers));
}

ExpertOrder OrderByScore(std::span<const ExpertScores> scores) {
  std::vector<double> sums(scores.front().Offset(scores.front().layers.size()));
  for (const ExpertScores& file : scores) {
    const std::vector<double> own = SumOfScores(file);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += own[i];
  }
  // Only ids of one layer are compared; a score of another layer has another scale.
  ExpertOrder order;
  for (size_t i = 0; i < scores.front().layers.size(); ++i) {
    const MoeLayerShape& layer = scores.front().layers[i];
    const double* first = sums.data() + scores.front().Offset(i);
    std::vector<uint32_t>& ids = order[layer.layer];
    ids.resize(layer.expert_count);
    std::iota(ids.begin(), ids.end(), 0u);
    std::stable_sort(ids.begin(), ids.end(),
                     [&](uint32_t a, uint32_t b) { return first[a] > first[b]; });
  }
  return order;
}

Plan MergeOverlay(Plan plan) {
  const OverlayPlan overlay = *plan.current_overlay();
  plan.overlays.clear();
  for (const auto& [layer, ids] : overlay.experts_by_layer) {
    const ExpertIds unowned = Difference(ids, Difference(ids, IdsOf(plan.remainder, layer)));
    if (unowned.empty()) continue;
    // Every expert has one owner. Where an overlay alone shipped it, any group may be that, so the
    // first is.
    ExpertIds& first = plan.groups[0].owned[layer];
    first = Union(first, unowned);
    ExpertIds& left = plan.remainder[layer];
    left = Difference(left, unowned);
    if (left.empty()) plan.remainder.erase(layer);
  }
  for (size_t group = 0; group < plan.groups.size(); ++group) {
    GroupPlan& own = plan.groups[group];
    for (const LayerExperts* taken : {&overlay.experts_by_layer, &FillOf(overlay, group)}) {
      for (const auto& [layer, ids] : *taken) {
        const ExpertIds more = Difference(ids, IdsOf(own.owned, layer));
        if (!more.empty()) own.fill[layer] = Union(IdsOf(own.fill, layer), more);
      }
    }
  }
  return plan;
}

LayerExperts FirstOf(const ExpertOrder& order, const LayerCounts& sizes) {
  LayerExperts out;
  for (const auto& [layer, ids] : order) {
    const auto size = sizes.find(layer);
    if (size == sizes.end() || size->second == 0) continue;
    const size_t count = std::min<size_t>(size->second, ids.size());
    ExpertIds& best = out[layer];
    best.assign(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count));
    std::sort(best.begin(), best.end());
  }
  return out;
}

}  // namespace moepack
