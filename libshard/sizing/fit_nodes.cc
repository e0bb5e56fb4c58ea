#include "libshard/sizing/fit_nodes.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <utility>

#include "libshard/base/text/text.h"
#include "libshard/plan/partition.h"

namespace moepack {
namespace {

struct CountLimits {
  uint32_t top_k = 0;  // the largest of all layers
  uint32_t most = 0;   // the experts of the smallest layer
};

CountLimits LimitsOf(const MoeModel& model, const NodeSizer& sizer) {
  Plan all;
  all.layers = LayerCountsOf(model);
  all.top_k = TopKOf(model);
  const Plan there = sizer.PlanOf(all);  // without blocks that the conversion leaves out
  CountLimits limits;
  for (const auto& [layer, top_k] : there.top_k) limits.top_k = std::max(limits.top_k, top_k);
  limits.most = there.layers.begin()->second;
  for (const auto& [layer, count] : there.layers) limits.most = std::min(limits.most, count);
  return limits;
}

// Lays out each count only once, whatever the number of machines.
class NeedTable {
 public:
  NeedTable(const NodeSizer& sizer, const NodeExtras& extras) : sizer_(sizer), extras_(extras) {}

  Result<NodeNeed> Of(uint32_t eligible) {
    const auto known = needs_.find(eligible);
    if (known != needs_.end()) return known->second;
    NodeNeed need{.eligible = eligible, .weights = {}, .extras = extras_};
    SHARD_TRY(need.weights, sizer_.NodeOf(eligible));
    needs_[eligible] = need;
    return need;
  }

  // REQUIRES: `least` experts fit.
  Result<NodeNeed> Largest(uint64_t budget, uint32_t least, uint32_t most) {
    uint32_t fits = least, over = most + 1;
    // By bisection, as more experts never take fewer bytes.
    while (over - fits > 1) {
      const uint32_t middle = fits + (over - fits) / 2;
      SHARD_TRY(const NodeNeed need, Of(middle));
      (need.total() <= budget ? fits : over) = middle;
    }
    return Of(fits);
  }

 private:
  const NodeSizer& sizer_;
  NodeExtras extras_;
  std::map<uint32_t, NodeNeed> needs_;
};

Error DoesNotFit(size_t node, const NodeFit& fit, const std::string& why) {
  return {Code::kInvalidArgument, TooMuch(node, fit, why),
          "a smaller recipe, cache type or --context needs less; --stages divides the layers "
          "between machines"};
}

}  // namespace

std::string TooMuch(size_t node, const NodeFit& fit, const std::string& why) {
  const NodeNeed& need = fit.need;
  return Cat("node ", node, " (", FormatBytes(fit.budget), "): trunk ",
             FormatBytes(need.weights.head + need.weights.trunk), " + cache ",
             FormatBytes(need.extras.cache), " + buffers ", FormatBytes(need.extras.buffers), " + ",
             Plural(need.eligible, "expert"), " per layer", why, " ",
             FormatBytes(need.weights.experts), " = ", FormatBytes(need.total()), ": ",
             FormatBytes(need.total() - std::min(need.total(), fit.budget)), " too much");
}

Result<std::vector<NodeFit>> FitNodes(const MoeModel& model, const NodeSizer& sizer,
                                      const std::vector<uint64_t>& budgets,
                                      const NodeExtras& extras, uint32_t least) {
  const CountLimits limits = LimitsOf(model, sizer);
  const uint32_t needed = std::max({limits.top_k, least, 1u});
  if (needed > limits.most) {
    return Error{Code::kInvalidArgument, Cat("nodes: expected at least ", Plural(needed, "expert"),
                                             " in every layer, found a layer of ", limits.most)};
  }
  const std::string why = needed == limits.top_k ? " (top-k)" : " (on every node)";
  NeedTable table(sizer, extras);
  std::vector<NodeFit> fits;
  for (const uint64_t budget : budgets) {
    NodeFit fit{.budget = budget, .need = {}};
    SHARD_TRY(fit.need, table.Of(needed));
    if (fit.need.total() > budget) return DoesNotFit(fits.size(), fit, why);
    SHARD_TRY(fit.need, table.Largest(budget, needed, limits.most));
    fits.push_back(fit);
  }
  return fits;
}

Result<std::vector<NodeFit>> MeasureNodes(const NodeSizer& sizer, const Plan& plan,
                                          const std::vector<uint64_t>& budgets,
                                          const NodeExtras& extras) {
  const Plan there = sizer.PlanOf(plan);
  // Any layer shows the count of all, because Node refuses plans in which they differ.
  const uint32_t layer = there.layers.begin()->first;
  std::vector<NodeFit> fits;
  for (size_t group = 0; group < plan.groups.size(); ++group) {
    NodeFit fit{.budget = budgets.empty() ? 0 : budgets[group], .need = {}};
    fit.need.extras = extras;
    fit.need.eligible = static_cast<uint32_t>(Eligible(there, group, layer).size());
    SHARD_TRY(fit.need.weights, sizer.Node(plan, group));
    if (!budgets.empty() && fit.need.total() > fit.budget) return DoesNotFit(group, fit, "");
    fits.push_back(fit);
  }
  return fits;
}

namespace {

constexpr const char* kByNode = "contiguous-by-node";  // runs as long as nodes have room

// What a layer has, and how many experts beside the overlay each node has room for in it.
struct LayerRoom {
  uint32_t expert_count = 0;
  ExpertIds overlay;
  ExpertIds others;  // all but the overlay
  std::vector<uint64_t> rooms;
  uint64_t all_rooms = 0;
};

// A node with less room than the overlay takes has none for others.
LayerRoom RoomOf(uint32_t expert_count, ExpertIds overlay, const std::vector<uint32_t>& eligible) {
  LayerRoom room{expert_count, std::move(overlay), ExpertIds(expert_count), {}, 0};
  std::iota(room.others.begin(), room.others.end(), 0u);
  room.others = Difference(room.others, room.overlay);
  for (const uint32_t count : eligible) {
    room.rooms.push_back(count - std::min<size_t>(count, room.overlay.size()));
    room.all_rooms += room.rooms.back();
  }
  return room;
}

// The run of a layer's experts that node `node` owns: its share by room, rounded. Experts of the
// overlay are on every node, so they take no room, and belong to the run in which they lie.
ExpertIds RunOf(const LayerRoom& layer, size_t node) {
  const uint64_t before = std::accumulate(
      layer.rooms.begin(), layer.rooms.begin() + static_cast<ptrdiff_t>(node), uint64_t{0});
  // Neighbours round the same boundary, so the runs cover all experts without a gap. As all nodes
  // together have room for them (CheckRoom), no run is longer than the room of its node.
  const auto boundary = [&](uint64_t rooms) -> uint32_t {
    if (rooms == 0) return 0;
    if (rooms == layer.all_rooms || layer.others.empty()) return layer.expert_count;
    return layer.others[layer.others.size() * rooms / layer.all_rooms];
  };
  const uint32_t first = node == 0 ? 0 : boundary(before);
  const bool last = node + 1 == layer.rooms.size();
  const uint32_t end = last ? layer.expert_count : boundary(before + layer.rooms[node]);
  ExpertIds ids(end - first);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

// The experts after the run, cyclically, until the node has `count` in the layer.
ExpertIds FillAfter(const ExpertIds& owned, const ExpertIds& overlay, uint32_t expert_count,
                    uint32_t count) {
  const ExpertIds held = Union(owned, overlay);
  const uint32_t start = owned.empty() ? 0 : owned.back() + 1;
  ExpertIds fill;
  for (uint32_t step = 0; step < expert_count && held.size() + fill.size() < count; ++step) {
    const uint32_t id = (start + step) % expert_count;
    if (!Contains(held, id)) fill.push_back(id);
  }
  std::sort(fill.begin(), fill.end());
  return fill;
}

Status CheckRoom(uint32_t number, const LayerRoom& layer) {
  if (layer.all_rooms >= layer.others.size()) return Ok();
  return Error{Code::kInvalidArgument,
               Cat("nodes: layer ", number, ": expected room for all ", layer.others.size(),
                   layer.overlay.empty() ? " experts" : " experts beside the overlay",
                   ", found room for ", layer.all_rooms, " on all nodes together"),
               "statistics of the routing choose which to leave out: --statistics FILE with "
               "--partition session or same"};
}

// Whether no node of a plan by number holds more than `eligible` experts of a layer. Experts of the
// overlay outside a node's run can be too many for it, although there is room on the others.
bool RunsFit(const Plan& plan, const std::map<uint32_t, LayerRoom>& rooms, uint32_t eligible) {
  for (const auto& [layer, room] : rooms) {
    for (const GroupPlan& group : plan.groups) {
      if (Union(IdsOf(group.owned, layer), room.overlay).size() > eligible) return false;
    }
  }
  return true;
}

// For plans in which every node holds what it has room for.
Status CheckUniform(const PlanOptions& options) {
  if (options.uniform) return Ok();
  return Error{Code::kInvalidArgument,
               "--no-uniform has no effect: every node holds as many experts as it has room for",
               "leave it out"};
}

// Equal nodes get the same number of experts in every layer; others get what they have room for.
Result<Plan> PlanFromScores(const MoeModel& model, PlanOptions options,
                            const std::vector<uint32_t>& eligible) {
  const uint32_t least = *std::min_element(eligible.begin(), eligible.end());
  const uint32_t most = *std::max_element(eligible.begin(), eligible.end());
  const LayerCounts layers = LayerCountsOf(model);
  // In a smaller layer a node cannot pick from that many, so such plans state the room of every
  // layer.
  const auto has_more = [&](const auto& layer) { return layer.second >= most; };
  if (least == most && std::all_of(layers.begin(), layers.end(), has_more)) {
    options.eligible = most;
    return MakePlan(model, options);
  }
  SHARD_CHECK(CheckUniform(options));
  SHARD_TRY(const Plan overlaid, PlanOverlayAlone(model, options));
  for (const uint32_t count : eligible) {
    std::vector<uint32_t>& rooms = options.rooms.emplace_back();
    for (const auto& [layer, expert_count] : layers) {
      const OverlayPlan* overlay = overlaid.current_overlay();
      const size_t everywhere =
          overlay == nullptr ? 0 : IdsOf(overlay->experts_by_layer, layer).size();
      rooms.push_back(std::min(count, expert_count) - static_cast<uint32_t>(everywhere));
    }
  }
  return MakePlan(model, options);
}

}  // namespace

Result<Plan> PlanOverlayAlone(const MoeModel& model, PlanOptions options) {
  options.groups = 1;
  options.partition = kContiguous;
  options.scores = nullptr;
  return MakePlan(model, options);
}

Result<Plan> PlanForNodes(const MoeModel& model, const PlanOptions& options,
                          const std::vector<uint32_t>& eligible) {
  PlanOptions by_number = options;
  by_number.groups = static_cast<uint32_t>(eligible.size());
  by_number.partition = PartitionOf(by_number);
  if (DecidesFromScores(*by_number.partition)) return PlanFromScores(model, by_number, eligible);
  if (by_number.partition != kContiguous) return MakePlan(model, by_number);
  SHARD_CHECK(CheckUniform(options));
  // Groups are filled below, each to the count of its node.
  by_number.uniform = false;
  SHARD_TRY(Plan plan, MakePlan(model, by_number));
  const LayerExperts overlay =
      plan.overlays.empty() ? LayerExperts() : plan.current_overlay()->experts_by_layer;
  const LayerCounts layers = LayerCountsOf(model);
  std::map<uint32_t, LayerRoom> rooms;
  for (const auto& [layer, expert_count] : layers) {
    const LayerRoom& room =
        rooms.emplace(layer, RoomOf(expert_count, IdsOf(overlay, layer), eligible)).first->second;
    SHARD_CHECK(CheckRoom(layer, room));
  }
  const bool alike = std::all_of(eligible.begin(), eligible.end(),
                                 [&](uint32_t count) { return count == eligible.front(); });
  const bool by_number_fits = alike && RunsFit(plan, rooms, eligible.front());
  if (!by_number_fits) plan.scheme = kByNode;
  for (size_t node = 0; node < eligible.size(); ++node) {
    GroupPlan& group = plan.groups[node];
    group.fill.clear();
    for (const auto& [layer, room] : rooms) {
      if (!by_number_fits) group.owned[layer] = RunOf(room, node);
      ExpertIds fill = FillAfter(group.owned[layer], room.overlay, room.expert_count,
                                 std::min(eligible[node], room.expert_count));
      if (!fill.empty()) group.fill[layer] = std::move(fill);
    }
  }
  plan.uniform = alike && std::all_of(layers.begin(), layers.end(), [&](const auto& layer) {
                   return layer.second >= eligible.front();
                 });
  SHARD_CHECK(CheckPlan("plan", plan));
  return plan;
}

}  // namespace moepack
