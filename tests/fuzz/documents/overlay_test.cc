// ReadOverlayFile: a parsed overlay is one that a plan can carry and a manifest can hold.
#include <nlohmann/json.hpp>

#include "fixtures/temp_dir.h"
#include "libshard/plan/overlay_plan.h"
#include "tests/fuzz/target.h"

namespace overlay_target {

constexpr const char* kName = "overlay.json";
const moepack::LayerCounts kLayers = {{0, 6}, {1, 6}, {3, 4}};

std::vector<std::string> Seeds() {
  return {R"({"version": "generalists-1", "layers": {"*": "0,3", "3": "1-2"}})",
          R"({"version": "v1", "layers": {"0": "5"}})"};
}

std::string OverlayProblem(const moepack::Plan& plan) {
  const moepack::OverlayPlan& overlay = plan.overlays[0];
  if (moepack::CountIds(overlay.experts_by_layer) == 0) return "an overlay of nothing";
  for (const auto& [layer, ids] : overlay.experts_by_layer) {
    if (!kLayers.contains(layer)) return "a layer that the model has not";
    if (!ids.empty() && ids.back() >= kLayers.at(layer)) return "an id that the layer has not";
  }
  moepack::Json document = moepack::Json::object();
  document["partition"] = moepack::PartitionToJson(plan);
  document["overlays"] = moepack::OverlaysToJson(plan);
  const auto again = moepack::UncheckedPlanFromJson(kName, document, kLayers, {});
  if (!again) return moepack::Cat("refused after writing: ", again.error().message);
  return again->overlays == plan.overlays ? "" : "another overlay after writing";
}

std::string Check(std::string_view input) {
  static const fixtures::TempDir dir;
  if (!fuzz::WriteInput(dir / kName, input)) return "cannot write the input";
  moepack::Plan plan;
  plan.scheme = "contiguous";
  plan.layers = kLayers;
  plan.groups.resize(1);
  const auto read = moepack::ReadOverlayFile((dir / kName).string(), kLayers);
  if (!read) return fuzz::ErrorProblem(read.error(), kName);
  plan.overlays = {*read};
  return OverlayProblem(plan);
}

constexpr fuzz::Target kTarget{Check, Seeds};

}  // namespace overlay_target

FUZZ_JSON_TARGET(FuzzOverlay, overlay_target::kTarget)
