#include "manifest/overlay/decide_overlay.h"

#include <algorithm>

#include "libshard/base/text/text.h"
#include "libshard/plan/overlay_plan.h"
#include "manifest/document/use_overlay.h"

namespace moepack::manifest {
namespace {

// "generalists-1" becomes "generalists-2", and "mine" becomes "mine-2".
std::string NextVersion(const Plan& plan, const std::string& parent) {
  if (parent.empty()) return "1";
  const size_t digits = parent.find_last_not_of("0123456789") + 1;
  std::string stem = parent.substr(0, digits);
  const auto last = ParseUint(parent.substr(digits));
  uint64_t number = last ? *last + 1 : 2;
  if (!last) stem += "-";
  while (plan.FindOverlay(Cat(stem, number)) != nullptr) ++number;
  return Cat(stem, number);
}

Result<std::vector<ExpertScores>> ScoresOf(const Plan& plan, const OverlayRequest& request) {
  std::vector<ExpertScores> scores;
  for (const NamedScores& named : request.scores) {
    SHARD_CHECK(CheckExpertScores(named.name, named.scores));
    SHARD_CHECK(CheckScoresFit(named.name, named.scores, plan.layers));
    if (!scores.empty() && scores.front().basis != named.scores.basis) {
      const auto name = [](ScoreBasis basis) {
        return kScoreBasisNames[static_cast<size_t>(basis)];
      };
      return Error{Code::kInvalidArgument,
                   Cat(named.name, ": score: expected ", name(scores.front().basis), " as in ",
                       request.scores.front().name, ", found ", name(named.scores.basis)),
                   "scores of one kind can be added up"};
    }
    scores.push_back(named.scores);
  }
  return scores;
}

Result<LayerCounts> SizesOf(const std::string& where, const Plan& plan,
                            const OverlayRequest& request, const OverlayPlan* parent) {
  if (!request.size && parent == nullptr) {
    return Error{Code::kInvalidArgument,
                 Cat(where,
                     ": overlay: expected one whose number of experts the new one takes "
                     "over, found none"),
                 "--size says how many experts of every layer it holds"};
  }
  LayerCounts sizes;
  for (const auto& [layer, expert_count] : plan.layers) {
    sizes[layer] = request.size.value_or(
        parent == nullptr ? 0
                          : static_cast<uint32_t>(IdsOf(parent->experts_by_layer, layer).size()));
    if (sizes[layer] <= expert_count) continue;
    return Error{Code::kInvalidArgument,
                 Cat("--size: expected at most ", expert_count, ", the experts of layer ", layer,
                     ", found ", sizes[layer])};
  }
  return sizes;
}

// Nodes of all groups already have these.
ExpertIds HeldByAllGroups(const Plan& plan, uint32_t layer) {
  ExpertIds common = Eligible(plan, nullptr, 0, layer);
  for (size_t group = 1; group < plan.groups.size(); ++group) {
    const ExpertIds other = Eligible(plan, nullptr, group, layer);
    common = moepack::Difference(common, moepack::Difference(common, other));
  }
  return common;
}

// The best experts of every layer among those that not every group holds.
Result<LayerExperts> BestExperts(const std::string& where, const Plan& plan,
                                 const ExpertOrder& order, const LayerCounts& sizes,
                                 std::vector<std::string>& notes) {
  ExpertOrder useful = order;
  for (auto& [layer, ids] : useful) {
    const ExpertIds common = HeldByAllGroups(plan, layer);
    std::erase_if(
        ids, [&](uint32_t id) { return std::binary_search(common.begin(), common.end(), id); });
    const auto size = sizes.find(layer);
    if (size == sizes.end() || size->second <= ids.size()) continue;
    notes.push_back(Cat("layer ", layer, ": the overlay holds ", ids.size(), " and not ",
                        Plural(size->second, "expert"), ", because every group holds the other ",
                        common.size()));
  }
  LayerExperts best = FirstOf(useful, sizes);
  std::erase_if(best, [](const auto& entry) { return entry.second.empty(); });
  if (!best.empty()) return best;
  return Error{Code::kInvalidArgument,
               Cat(where,
                   ": overlay: expected experts that not every group holds, found none in any "
                   "layer"),
               "an overlay would change nothing for any node"};
}

}  // namespace

Result<DecidedOverlay> DecideOverlay(const std::string& where, const Plan& plan,
                                     const OverlayRequest& request) {
  const OverlayPlan* parent = plan.current_overlay();
  if (!request.parent.empty()) {
    SHARD_TRY(parent, FindOverlay(where, request.parent, plan));
  }
  DecidedOverlay decided;
  OverlayPlan& overlay = decided.overlay;
  ExpertOrder order;
  if (!request.file.empty()) {
    SHARD_TRY(overlay, ReadOverlayFile(request.file, plan.layers));
  } else {
    SHARD_TRY(const std::vector<ExpertScores> scores, ScoresOf(plan, request));
    SHARD_TRY(const LayerCounts sizes, SizesOf(where, plan, request, parent));
    order = OrderByScore(scores);
    SHARD_TRY(overlay.experts_by_layer, BestExperts(where, plan, order, sizes, decided.notes));
  }
  overlay.parent = parent == nullptr ? "" : parent->version;
  if (!request.version.empty()) overlay.version = request.version;
  if (overlay.version.empty()) overlay.version = NextVersion(plan, overlay.parent);
  if (const char* expected = ExpectedOverlayName(overlay.version)) {
    return Error{Code::kInvalidArgument,
                 Cat("--version: expected ", expected, ", found ", Quoted(overlay.version))};
  }
  if (plan.FindOverlay(overlay.version) != nullptr) {
    return Error{Code::kInvalidArgument,
                 Cat(where, ": overlay ", Quoted(overlay.version),
                     ": expected a new version, found one that is there"),
                 "name another with --version"};
  }
  SHARD_CHECK(FillOverlay(plan, order, overlay));
  return decided;
}

}  // namespace moepack::manifest
