// Warnings about plans that are allowed but may surprise. They are printed before anything is
// written.
#include <algorithm>
#include <limits>

#include "libshard/base/text/text.h"
#include "libshard/plan/partition.h"
#include "libshard/plan/plan_steps.h"

namespace moepack {
namespace {

// Published splits lost quality below these shares; they are a reason to measure, not limits.
constexpr uint64_t kMinShare = 4;         // a quarter of the experts
constexpr uint64_t kMinTopKMultiple = 8;  // times the experts per token

// The place with the fewest eligible experts among those below a threshold.
struct Shortage {
  size_t places = 0;
  size_t group = 0;
  uint32_t layer = 0;
  size_t count = std::numeric_limits<size_t>::max();

  void Add(size_t at_group, uint32_t at_layer, size_t eligible) {
    ++places;
    if (eligible >= count) return;
    group = at_group;
    layer = at_layer;
    count = eligible;
  }
};

void WarnSmallGroups(const Plan& plan, std::vector<std::string>& out) {
  Shortage share, multiple;
  for (size_t group = 0; group < plan.groups.size(); ++group) {
    for (const auto& [layer, expert_count] : plan.layers) {
      const size_t count = Eligible(plan, group, layer).size();
      const auto top_k = plan.top_k.find(layer);
      if (count * kMinShare < expert_count) share.Add(group, layer, count);
      if (top_k != plan.top_k.end() && count < kMinTopKMultiple * top_k->second)
        multiple.Add(group, layer, count);
    }
  }
  if (share.places > 0) {
    out.push_back(Cat("small groups: below a quarter of the experts quality often suffers; group ",
                      share.group, " may pick from ", share.count, " of ",
                      plan.layers.at(share.layer), " in layer ", share.layer));
  }
  if (multiple.places > 0) {
    out.push_back(Cat("small groups: below ", kMinTopKMultiple,
                      " times the experts per token quality often suffers; group ", multiple.group,
                      " may pick from ", multiple.count, " in layer ", multiple.layer,
                      ", which uses ", plan.top_k.at(multiple.layer), " per token"));
  }
}

void WarnRemainder(const Plan& plan, std::vector<std::string>& out) {
  uint64_t lost = 0, layers = 0;
  for (const auto& [layer, ids] : plan.remainder) {
    ExpertIds left = ids;
    for (const OverlayPlan& overlay : plan.overlays)
      left = Difference(left, IdsOf(overlay.experts_by_layer, layer));
    const size_t absent = left.size();
    lost += absent;
    layers += absent > 0;
  }
  if (lost == 0) return;
  out.push_back(Cat("remainder: ", Plural(lost, "expert"), " in ", Plural(layers, "layer"),
                    lost == 1 ? " is" : " are", " on no node"));
}

// What the overlay's bundle holds for its groups in addition to the overlay's experts.
LayerExperts FillIn(const OverlayPlan& overlay) {
  LayerExperts fill = HeldBy(overlay);
  for (auto& [layer, ids] : fill) ids = Difference(ids, IdsOf(overlay.experts_by_layer, layer));
  return fill;
}

// True if the plan could be made again without fill: --no-uniform cannot be used together with
// --eligible, and some group may need the fill to have what a token uses.
bool FillCanBeLeftOut(Plan plan, const PlanOptions* made_from) {
  if (made_from == nullptr || !made_from->uniform || made_from->eligible) return false;
  for (GroupPlan& group : plan.groups) group.fill.clear();
  for (OverlayPlan& overlay : plan.overlays) overlay.fill.clear();
  return CheckEligibleCounts("plan", plan).has_value();
}

void WarnFill(const MoeModel& model, const Plan& plan, const PlanOptions* made_from,
              std::vector<std::string>& out) {
  if (DecidesFromScores(plan.scheme)) return;  // groups share experts intentionally
  uint64_t expert_count = 0, bytes = 0;
  const auto add = [&](const LayerExperts& fill) {
    for (const MoeLayer& layer : model.layers()) {
      const uint64_t count = IdsOf(fill, layer.layer).size();
      expert_count += count;
      bytes += count * layer.expert_bytes;
    }
  };
  for (const GroupPlan& group : plan.groups) add(group.fill);
  for (const OverlayPlan& overlay : plan.overlays) add(FillIn(overlay));
  if (expert_count == 0) return;
  // Without headers (an index alone) sizes are unknown.
  const std::string cost =
      bytes == 0 ? "" : Cat(" and costs ", FormatBytes(bytes), " in the types of the source");
  out.push_back(Cat("fill: holding the same count everywhere repeats ",
                    Plural(expert_count, "expert"), cost,
                    FillCanBeLeftOut(plan, made_from) ? "; --no-uniform leaves them out" : ""));
}

// Finds nodes that no session would choose. With fewer sessions than nodes, some are idle anyway.
void WarnIdle(const Plan& plan, std::vector<std::string>& out) {
  const PlanExpectation& expected = *plan.expectation;
  if (expected.overall.sessions < plan.groups.size()) return;
  ExpertIds idle;
  for (uint32_t group = 0; group < expected.groups.size(); ++group) {
    if (expected.groups[group].sessions == 0) idle.push_back(group);
  }
  if (idle.empty()) return;
  out.push_back(Cat("idle: none of the ", FormatCount(expected.overall.sessions),
                    expected.held_out > 0 ? " held-out sessions" : " sessions", " would go to ",
                    idle.size() == 1 ? "node " : "nodes ", FormatIds(idle),
                    ", because another node holds more of what each of them uses; use fewer nodes, "
                    "or nodes of one size"));
}

// Expectations that should make users think again.
void WarnExpectation(const Plan& plan, std::vector<std::string>& out) {
  if (!plan.expectation) return;
  const PlanExpectation& expected = *plan.expectation;
  if (expected.held_out == 0)
    out.push_back(
        "expectation: measured on the sessions that the plan was made from, so new ones will find "
        "less; --held-out keeps some apart, if there are several");
  WarnIdle(plan, out);
  // With the same experts everywhere no session needs to be placed, which is worth a small loss.
  if (plan.groups.size() < 2 || plan.scheme == "same" || !DecidesFromScores(plan.scheme)) return;
  if (expected.overall.mean - expected.same.mean >= kLeastGain) return;
  out.push_back(Cat("small gain: sessions find ", FormatShare(expected.overall.mean),
                    " of what they use on their node, and ", FormatShare(expected.same.mean),
                    " with the same experts on every node; --partition same needs no placement"));
}

// True if some node would have different numbers of eligible experts in its layers.
bool LayersOfANodeDiffer(const Plan& plan) {
  const uint32_t first = plan.layers.begin()->first;
  for (size_t group = 0; group < plan.groups.size(); ++group) {
    const size_t count = Eligible(plan, group, first).size();
    for (const auto& [layer, expert_count] : plan.layers) {
      if (Eligible(plan, group, layer).size() != count) return true;
    }
  }
  return false;
}

void WarnDifferentCounts(const Plan& plan, std::vector<std::string>& out) {
  const auto [least, most] =
      std::minmax_element(plan.layers.begin(), plan.layers.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; });
  if (least->second != most->second) {
    out.push_back(Cat("layers differ in their number of experts: ", least->second, " in layer ",
                      least->first, ", ", most->second, " in layer ", most->first));
  }
  if (!plan.uniform && LayersOfANodeDiffer(plan)) {
    out.push_back(
        "layers of a node differ in their number of eligible experts: stock llama.cpp takes one "
        "count for all layers and cannot load such a node");
  }
}

// True if `ids` has some but not all experts of a routing group of `size` consecutive ids.
bool CutsRoutingGroup(const ExpertIds& ids, uint32_t size) {
  for (size_t i = 0; i < ids.size();) {
    const uint32_t group = ids[i] / size;
    const size_t first = i;
    // Routing groups are runs of consecutive ids, as DeepSeek-V3's router takes them.
    while (i < ids.size() && ids[i] / size == group) ++i;
    if (i - first != size) return true;
  }
  return false;
}

void WarnRoutingGroups(const MoeModel& model, const Plan& plan, std::vector<std::string>& out) {
  const uint32_t groups = model.routing().groups;
  if (groups <= 1) return;
  uint64_t cut = 0;
  for (const auto& [layer, expert_count] : plan.layers) {
    if (expert_count % groups != 0) continue;
    for (size_t group = 0; group < plan.groups.size(); ++group)
      cut += CutsRoutingGroup(Eligible(plan, group, layer), expert_count / groups);
  }
  if (cut == 0) return;
  out.push_back(Cat("routing groups: this router first picks ", model.routing().groups_used, " of ",
                    Plural(groups, "group"), " of experts, and ", FormatCount(cut), " of ",
                    FormatCount(plan.groups.size() * plan.layers.size()),
                    " eligible sets hold parts of such groups; nodes then choose differently, and "
                    "GGUF needs its group keys rewritten"));
}

void WarnHashRouting(const MoeModel& model, std::vector<std::string>& out) {
  const auto tables =
      std::count_if(model.tensors().begin(), model.tensors().end(), [](const ModelTensor& tensor) {
        return tensor.rule != nullptr && tensor.rule->holds_expert_ids;
      });
  if (tables == 0) return;
  out.push_back(Cat("hash routing: ", tables,
                    " tables fix the experts of a token by its id; tokens whose experts are not on "
                    "a node need substitutes there"));
}

}  // namespace

std::vector<std::string> PlanWarnings(const MoeModel& model, const Plan& plan,
                                      const PlanOptions* made_from) {
  std::vector<std::string> out;
  WarnSmallGroups(plan, out);
  WarnRemainder(plan, out);
  WarnFill(model, plan, made_from, out);
  WarnExpectation(plan, out);
  WarnDifferentCounts(plan, out);
  WarnRoutingGroups(model, plan, out);
  WarnHashRouting(model, out);
  return out;
}

}  // namespace moepack
