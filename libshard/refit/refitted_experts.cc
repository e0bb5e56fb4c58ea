#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"
#include "libshard/refit/refit_store.h"

namespace moepack {
namespace {

using ArrayShape = std::vector<uint64_t>;

Status CheckArray(const std::string& where, const RefittedExperts& refitted,
                  const RefittedArray& array) {
  const std::vector<float>& values = refitted.*array.values;
  const std::string place = Cat(where, ": tensor ", Quoted(array.name));
  if (values.empty() && !array.required) return Ok();
  const ArrayShape shape = array.ShapeOf(refitted.expert_ids.size(), refitted);
  uint64_t expected = 1;
  for (uint64_t dimension : shape) expected *= dimension;
  if (values.empty() || values.size() != expected)
    return Error{Code::kCorrupt, Cat(place, ": expected ", FormatShape(shape), ", found ",
                                     values.size(), " values")};
  const auto bad = std::find_if_not(values.begin(), values.end(),
                                    [](float value) { return std::isfinite(value); });
  if (bad == values.end()) return Ok();
  return Error{Code::kCorrupt, Cat(place, ": expected finite values, found ", *bad, " at value ",
                                   bad - values.begin(), " (layer ", refitted.layer, ", group ",
                                   refitted.group, ")")};
}

}  // namespace

const std::vector<RefittedArray>& RefittedArrays() {
  using R = RefittedExperts;
  using Size = uint64_t;
  static const auto of_gate = [](Size n, Size h, Size f, Size) { return ArrayShape{n, f, h}; };
  static const auto of_down = [](Size n, Size h, Size f, Size) { return ArrayShape{n, h, f}; };
  static const auto of_router = [](Size n, Size, Size, Size r) { return ArrayShape{n, r}; };
  static const auto of_hidden = [](Size n, Size h, Size, Size) { return ArrayShape{n, h}; };
  static const auto of_width = [](Size n, Size, Size f, Size) { return ArrayShape{n, f}; };
  static const auto of_experts = [](Size n, Size, Size, Size) { return ArrayShape{n}; };
  static const std::vector<RefittedArray> arrays = {
      {"gate", &R::gate, false, of_gate},
      {"up", &R::up, true, of_gate},
      {"down", &R::down, true, of_down},
      {"router", &R::router, true, of_router},
      {"router_bias", &R::router_bias, false, of_experts},
      {"selection_bias", &R::selection_bias, false, of_experts},
      {"gate_bias", &R::gate_bias, false, of_width},
      {"up_bias", &R::up_bias, false, of_width},
      {"down_bias", &R::down_bias, false, of_hidden},
  };
  return arrays;
}

bool HaveSameValues(const RefittedExperts& a, const RefittedExperts& b) {
  const auto& arrays = RefittedArrays();
  return a.expert_ids == b.expert_ids &&
         std::all_of(arrays.begin(), arrays.end(), [&](const RefittedArray& array) {
           return a.*array.values == b.*array.values;
         });
}

Status CheckRefitted(const std::string& where, const RefittedExperts& refitted) {
  const ExpertIds& ids = refitted.expert_ids;
  const bool ascend =
      std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end();
  if (ids.empty() || !ascend)
    return Error{Code::kCorrupt,
                 Cat(where, ": experts: expected ascending ids, at least one, found ",
                     Quoted(FormatIds(ids)))};
  for (const RefittedArray& array : RefittedArrays())
    SHARD_CHECK(CheckArray(where, refitted, array));
  return Ok();
}

ExpertIds RefitSlots(const Plan& plan, size_t group, uint32_t layer) {
  ExpertIds slots = IdsOf(HeldBy(plan.groups[group]), layer);
  const OverlayPlan* overlay = plan.current_overlay();
  // One expert of an overlay serves all groups, so no single group may change it.
  if (overlay == nullptr) return slots;
  slots = Difference(slots, IdsOf(overlay->experts_by_layer, layer));
  return Difference(slots, IdsOf(FillOf(*overlay, group), layer));
}

std::string RefitPlanDigest(const Plan& plan) {
  // The expectation, the stages and older overlays of a plan change nothing in a refit.
  Json groups = Json::array();
  for (const GroupPlan& group : plan.groups)
    groups.push_back(LayerExpertsToJson(HeldBy(group), plan.layers));
  const OverlayPlan* overlay = plan.current_overlay();
  Json document = Json::object();
  document["groups"] = std::move(groups);
  document["overlay"] = overlay == nullptr ? Json(nullptr) : OverlayToJson(*overlay, plan.layers);
  return Sha256Hex(WriteJson(document));
}

}  // namespace moepack
