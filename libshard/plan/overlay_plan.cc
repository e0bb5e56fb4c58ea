// What an overlay holds: the experts listed in a file, or the best by their scores.
#include "libshard/plan/overlay_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "libshard/base/text/text.h"
#include "libshard/plan/plan.h"
#include "libshard/plan/plan_steps.h"

namespace moepack {

const char* ExpectedOverlayName(std::string_view text) {
  if (!IsLabel(text)) return "1 to 64 of [A-Za-z0-9._-], the first not a dot";
  if (text == kNoOverlay || text == kAutomaticOverlay)
    return "a name other than none and auto, which are words of --overlay";
  return nullptr;
}

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

// The fill of an overlay: which experts of other groups a node needs in addition, so that all
// routers have equally many.

namespace {

// The number of experts of the largest group and layer.
size_t LargestEligible(const Plan& plan, const OverlayPlan& overlay) {
  size_t largest = 0;
  for (size_t group = 0; group < plan.groups.size(); ++group) {
    for (const auto& [layer, expert_count] : plan.layers)
      largest = std::max(largest, Eligible(plan, &overlay, group, layer).size());
  }
  return largest;
}

// Without scores no expert is known to be better than another, so this takes the ids after the
// overlay's.
std::vector<uint32_t> IdsAfter(const ExpertIds& overlay, uint32_t expert_count) {
  std::vector<uint32_t> order(expert_count);
  std::iota(order.begin(), order.end(), 0u);
  const uint32_t start = overlay.empty() ? 0 : (overlay.back() + 1) % expert_count;
  std::rotate(order.begin(), order.begin() + start, order.end());
  return order;
}

// The groups of one layer while their experts are chosen.
class LayerFill {
 public:
  LayerFill(const Plan& plan, const OverlayPlan& overlay, uint32_t layer, size_t target)
      : expert_count_(plan.layers.at(layer)) {
    const ExpertIds barred =
        Difference(IdsOf(plan.remainder, layer), IdsOf(overlay.experts_by_layer, layer));
    for (size_t group = 0; group < plan.groups.size(); ++group) {
      const ExpertIds eligible = Eligible(plan, &overlay, group, layer);
      std::vector<bool> lacks(expert_count_, true);
      for (const ExpertIds* ids : {&eligible, &barred}) {
        for (const uint32_t id : *ids) lacks[id] = false;
      }
      groups_.push_back({std::move(lacks), target - eligible.size(), {}});
    }
  }

  // Gives the expert that serves the groups with the largest needs to all groups that lack it,
  // until none needs more. Equal groups that share few experts thus get hardly more different
  // experts than one of them needs. False if a group needs more than there are.
  bool Choose(const std::vector<uint32_t>& order) {
    while (true) {
      size_t best_use = 0;
      uint32_t best = 0;
      for (const uint32_t id : order) {
        const size_t use = UseOf(id);
        // Of equal experts, the first in `order` wins.
        if (use <= best_use) continue;
        best_use = use;
        best = id;
      }
      if (best_use == 0) break;
      Give(best);
    }
    return std::all_of(groups_.begin(), groups_.end(),
                       [](const Group& group) { return group.needs == 0; });
  }

  // Ascending.
  ExpertIds FillOfGroup(size_t group) const {
    ExpertIds fill = groups_[group].fill;
    std::sort(fill.begin(), fill.end());
    return fill;
  }

 private:
  struct Group {
    std::vector<bool> lacks;  // by id: the experts it may still get
    size_t needs = 0;
    ExpertIds fill;
  };

  size_t UseOf(uint32_t id) const {
    size_t use = 0;
    // A group counts by how many it still needs, so groups that lag behind decide.
    for (const Group& group : groups_) use += group.lacks[id] ? group.needs : 0;
    return use;
  }

  void Give(uint32_t id) {
    for (Group& group : groups_) {
      if (group.needs == 0 || !group.lacks[id]) continue;
      group.fill.push_back(id);
      group.lacks[id] = false;
      --group.needs;
    }
  }

  uint32_t expert_count_;
  std::vector<Group> groups_;
};

Error TooFew(const Plan& plan, const OverlayPlan& overlay, uint32_t layer, size_t target) {
  const ExpertIds barred =
      Difference(IdsOf(plan.remainder, layer), IdsOf(overlay.experts_by_layer, layer));
  return {Code::kInvalidArgument,
          Cat("overlay ", Quoted(overlay.version), ": layer ", layer,
              ": experts to fill every group up to one count: expected ", target, ", found ",
              plan.layers.at(layer) - barred.size()),
          "use an overlay with about as many experts in every layer, or groups without fill "
          "(--no-uniform)"};
}

}  // namespace

Status FillOverlay(const Plan& plan, const ExpertOrder& order, OverlayPlan& overlay) {
  overlay.fill.clear();
  if (!plan.uniform) return Ok();
  const size_t target = LargestEligible(plan, overlay);
  std::vector<LayerExperts> fill(plan.groups.size());
  bool any = false;
  for (const auto& [layer, expert_count] : plan.layers) {
    const auto wanted = order.find(layer);
    LayerFill layer_fill(plan, overlay, layer, target);
    const bool enough = layer_fill.Choose(
        wanted == order.end() ? IdsAfter(IdsOf(overlay.experts_by_layer, layer), expert_count)
                              : wanted->second);
    if (!enough) return TooFew(plan, overlay, layer, target);
    for (size_t group = 0; group < plan.groups.size(); ++group) {
      ExpertIds ids = layer_fill.FillOfGroup(group);
      any = any || !ids.empty();
      if (!ids.empty()) fill[group][layer] = std::move(ids);
    }
  }
  if (any) overlay.fill = std::move(fill);
  return Ok();
}

}  // namespace moepack
