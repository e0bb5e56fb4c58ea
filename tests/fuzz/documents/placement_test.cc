// PlacementFromJson: "placement" of plan.json and distribution.json.
#include "libshard/plan/placement.h"

#include <nlohmann/json.hpp>

#include "libshard/base/text/json.h"
#include "tests/fuzz/target.h"
#include "tests/libshard/plan/placement_sample.h"

namespace placement_target {

using moepack::Json;

constexpr const char* kWhere = "damaged/plan.json: placement";
const moepack::LayerCounts kLayers = {{0, moepack::kSampleExperts}, {1, moepack::kSampleExperts}};

std::vector<std::string> Seeds() {
  return {moepack::PlacementToJson(moepack::SampleTable()).dump(),
          moepack::PlacementToJson(
              *moepack::PlacementFor(moepack::SamplePlacementPlan(), moepack::SampleScores()))
              .dump()};
}

std::string Check(std::string_view input) {
  const auto document = moepack::ParseJson(kWhere, input);
  if (!document) return fuzz::ErrorProblem(document.error(), kWhere);
  const auto table = moepack::PlacementFromJson(kWhere, *document, moepack::kSampleGroups, kLayers);
  if (!table) return fuzz::ErrorProblem(table.error(), kWhere);
  const moepack::PlacementAnswer answer =
      moepack::Place(*table, std::vector<uint32_t>{0, 3, 200, 70000, UINT32_MAX});
  if (answer.best >= moepack::kSampleGroups || answer.second >= moepack::kSampleGroups)
    return "a group that there is not";
  if (table->sessions_by_group[answer.best] == 0) return "a group without sessions was chosen";
  if (table->centroids) {
    const size_t expected =
        table->centroids->layers * moepack::kSampleGroups * moepack::kSampleExperts;
    if (table->centroids->values.size() != expected) return "centroids that do not fit";
  }
  const Json written = moepack::PlacementToJson(*table);
  const auto again = moepack::PlacementFromJson(kWhere, written, moepack::kSampleGroups, kLayers);
  if (!again) return moepack::Cat("refused after writing: ", again.error().message);
  return *again == *table ? "" : "another table after writing";
}

constexpr fuzz::Target kTarget{Check, Seeds};

}  // namespace placement_target

FUZZ_JSON_TARGET(FuzzPlacement, placement_target::kTarget)
