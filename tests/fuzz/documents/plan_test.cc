// PlanFromJson: "partition" and "overlays" of plan.json and distribution.json.
#include "libshard/plan/plan.h"

#include <nlohmann/json.hpp>

#include "libshard/base/text/json.h"
#include "tests/fuzz/target.h"

namespace plan_target {

using moepack::Json;

constexpr const char* kWhere = "damaged/plan.json";
const moepack::LayerCounts kLayers = {{0, 6}, {1, 6}, {3, 4}};
const std::map<uint32_t, uint32_t> kTopK = {{0, 1}, {1, 1}, {3, 1}};

std::vector<std::string> Seeds() {
  return {R"({"partition": {"scheme": "contiguous", "uniform": false, "groups": [
             {"experts": {"*": "0-2", "3": "0-1"}, "fill": {}},
             {"experts": {"*": "3-5", "3": "2,3"}, "fill": {}}], "remainder": {}},
             "overlays": []})",
          R"({"partition": {"scheme": "explicit", "uniform": false, "groups": [
             {"experts": {"0": "0,2,4", "1": "0", "3": "0"}, "fill": {"1": "1"}},
             {"experts": {"0": "1,3", "1": "1-2", "3": "1-2"}, "fill": {}}],
             "remainder": {"0": "5", "1": "3-5", "3": "3"}},
             "overlays": [{"version": "v1", "parent": null, "experts": {"0": "5", "1": "0"}},
             {"version": "v2", "parent": "v1", "experts": {"*": "0"},
              "fill": [{"0": "1"}, {"3": "3"}]}]})"};
}

Json ToJson(const moepack::Plan& plan) {
  Json document = Json::object();
  document["partition"] = moepack::PartitionToJson(plan);
  document["overlays"] = moepack::OverlaysToJson(plan);
  return document;
}

std::string PlanProblem(const moepack::Plan& plan) {
  if (const auto status = moepack::CheckPlan(kWhere, plan); !status) return status.error().message;
  for (const auto& [layer, count] : plan.layers) {
    for (size_t group = 0; group < plan.groups.size(); ++group) {
      for (const moepack::OverlayPlan& overlay : plan.overlays) {
        const moepack::ExpertIds ids = moepack::Eligible(plan, &overlay, group, layer);
        if (!ids.empty() && ids.back() >= count) return "an eligible id that the layer has not";
      }
    }
  }
  const Json written = ToJson(plan);
  const auto again = moepack::PlanFromJson(kWhere, written, kLayers, kTopK);
  if (!again) return moepack::Cat("refused after writing: ", again.error().message);
  return ToJson(*again) == written ? "" : "another plan after writing";
}

std::string Check(std::string_view input) {
  const auto document = moepack::ParseJson(kWhere, input);
  if (!document) return fuzz::ErrorProblem(document.error(), kWhere);
  const auto plan = moepack::PlanFromJson(kWhere, *document, kLayers, kTopK);
  return plan ? PlanProblem(*plan) : fuzz::ErrorProblem(plan.error(), kWhere);
}

constexpr fuzz::Target kTarget{Check, Seeds, 10'000};

}  // namespace plan_target

FUZZ_JSON_TARGET(FuzzPlan, plan_target::kTarget)
