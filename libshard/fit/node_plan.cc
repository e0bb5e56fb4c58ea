#include "libshard/fit/node_plan.h"

#include <algorithm>
#include <numeric>

#include "libshard/base/text/text.h"
#include "libshard/plan/partition.h"

namespace moepack {
namespace {

constexpr std::string_view kContiguous = "contiguous";
constexpr const char* kByNode = "contiguous-by-node";  // runs of different lengths

// The run of a layer's experts that node `node` owns: its share by room, rounded.
ExpertIds RunOf(const std::vector<uint32_t>& room, size_t node, uint32_t expert_count) {
  uint64_t before = 0, total = 0;
  for (size_t i = 0; i < room.size(); ++i) {
    before += i < node ? room[i] : 0;
    total += room[i];
  }
  // Neighbours round the same boundary, so the runs cover all experts without a gap. As all nodes
  // together have room for them (CheckRoom), no run is longer than the room of its node.
  const uint64_t first = expert_count * before / total;
  const uint64_t end = expert_count * (before + room[node]) / total;
  ExpertIds ids(end - first);
  std::iota(ids.begin(), ids.end(), static_cast<uint32_t>(first));
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

Status CheckRoom(const LayerCounts& layers, const std::vector<uint32_t>& eligible) {
  const uint64_t room = std::accumulate(eligible.begin(), eligible.end(), uint64_t{0});
  for (const auto& [layer, expert_count] : layers) {
    if (room >= expert_count) continue;
    return Error{Code::kInvalidArgument,
                 Cat("nodes: layer ", layer, ": expected room for all ", expert_count,
                     " experts, found room for ", room, " on all nodes together"),
                 "statistics of the routing choose which to leave out: --statistics FILE with "
                 "--partition session or same"};
  }
  return Ok();
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
  // A plan of one group is enough to learn what every node has in any case: the overlay.
  PlanOptions whole = options;
  whole.groups = 1;
  whole.partition = kContiguous;
  whole.scores = nullptr;
  SHARD_TRY(const Plan overlaid, MakePlan(model, whole));
  for (const uint32_t count : eligible) {
    std::vector<uint32_t>& rooms = options.rooms.emplace_back();
    for (const auto& [layer, expert_count] : layers) {
      const OverlayPlan* overlay = overlaid.current_overlay();
      const size_t everywhere = overlay == nullptr ? 0 : IdsOf(overlay->experts, layer).size();
      rooms.push_back(std::min(count, expert_count) - static_cast<uint32_t>(everywhere));
    }
  }
  return MakePlan(model, options);
}

}  // namespace

Result<Plan> PlanForNodes(const MoeModel& model, const PlanOptions& options,
                          const std::vector<uint32_t>& eligible) {
  PlanOptions by_number = options;
  by_number.groups = static_cast<uint32_t>(eligible.size());
  by_number.partition = PartitionOf(by_number);
  if (DecidesFromScores(*by_number.partition)) return PlanFromScores(model, by_number, eligible);
  if (by_number.partition != kContiguous) return MakePlan(model, by_number);
  const LayerCounts layers = LayerCountsOf(model);
  SHARD_CHECK(CheckRoom(layers, eligible));
  // Groups are filled below, each to the count of its node.
  by_number.uniform = false;
  SHARD_TRY(Plan plan, MakePlan(model, by_number));
  const bool alike = std::all_of(eligible.begin(), eligible.end(),
                                 [&](uint32_t count) { return count == eligible.front(); });
  if (!alike) plan.scheme = kByNode;
  const LayerExperts overlay =
      plan.overlays.empty() ? LayerExperts() : plan.current_overlay()->experts;
  for (size_t node = 0; node < eligible.size(); ++node) {
    GroupPlan& group = plan.groups[node];
    group.fill.clear();
    for (const auto& [layer, expert_count] : layers) {
      if (!alike) group.owned[layer] = RunOf(eligible, node, expert_count);
      ExpertIds fill = FillAfter(group.owned[layer], IdsOf(overlay, layer), expert_count,
                                 std::min(eligible[node], expert_count));
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
