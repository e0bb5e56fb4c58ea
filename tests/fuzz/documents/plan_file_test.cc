// PlanFileFromJson: all of plan.json where the model is not at hand, with what is expected of the
// plan, the machines that it is placed on, its stages and types.
#include <nlohmann/json.hpp>

#include "fixtures/temp_dir.h"
#include "libshard/plan/plan.h"
#include "tests/fuzz/target.h"

namespace plan_file_target {

using moepack::Cat;

constexpr const char* kWhere = "damaged/plan.json";
const moepack::LayerCounts kLayers = {{0, 16}, {1, 16}, {2, 16}, {3, 16}};
const std::map<uint32_t, uint32_t> kTopK = {{0, 2}, {1, 2}, {2, 2}, {3, 2}};

// A plan of today with every section, and the one of version 1.0 that comes with the tree.
std::vector<std::string> Seeds() {
  const std::filesystem::path root = MOEPACK_SOURCE_DIR;
  return {R"({"format": "moepack-plan", "format_version": "1.0",
              "model": {"version": "0123456789abcdef", "family": "qwen3-moe", "source": "m"},
              "partition": {"scheme": "contiguous", "uniform": false, "groups": [
              {"experts": {"*": "0-7"}, "fill": {}}, {"experts": {"*": "8-15"}, "fill": {}}],
              "remainder": {}},
              "overlays": [{"version": "v1", "parent": null, "experts": {"*": "0,8"}}]})",
          fixtures::ReadFile(root / "fixtures/fuzz/plan_expectation_stages_types.json"),
          fixtures::ReadFile(root / "fixtures/tiny-plan-1.0.json")};
}

std::string Check(std::string_view input) {
  const auto document = moepack::ParseJson(kWhere, input);
  if (!document) return fuzz::ErrorProblem(document.error(), kWhere);
  const auto plan = moepack::PlanFileFromJson(kWhere, *document, kLayers, kTopK);
  if (!plan) return fuzz::ErrorProblem(plan.error(), kWhere);
  if (const auto status = moepack::CheckPlan(kWhere, *plan); !status) return status.error().message;
  for (const moepack::StageRange& stage : plan->stages)
    if (stage.first_layer > stage.last_layer) return "a stage that ends before it begins";
  return "";
}

constexpr fuzz::Target kTarget{Check, Seeds, 5000};

}  // namespace plan_file_target

FUZZ_JSON_TARGET(FuzzPlanFile, plan_file_target::kTarget)
