// The file of --pin: experts that every node gets. Whatever it holds, the plan that is made with it
// is a good one, or the file is named.
#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"
#include "libshard/plan/plan.h"
#include "tests/fuzz/target.h"
#include "tests/libshard/model/model_for_test.h"
#include "tests/libshard/strategies/planted.h"

namespace pins_target {

constexpr const char* kName = "pins.json";

std::vector<std::string> Seeds() {
  return {R"({"layers": {"*": "0"}})", R"({"version": "v1", "layers": {"0": "1,3", "2": "2-3"}})"};
}

std::vector<std::string> Refused() {
  return {R"({"layers": {}})", R"({"layers": {"*": "8"}})", R"({"layers": {"1": "0"}})",
          R"({"layers": {"*": "0"}, "more": 1})"};
}

// Layers 0 and 2 of eight experts.
constexpr moepack::Planted kPlanted = {
    .layers = 2, .experts = 8, .kinds = 2, .sessions = 6, .own = 2, .shared = 1};

const moepack::MoeModel& Model() {
  static const moepack::MoeModel model = [] {
    moepack::ModelForTest made;
    for (uint32_t i = 0; i < kPlanted.layers; ++i)
      made.Layer({2 * i, kPlanted.experts, 2, 10, false});
    return made.Build();
  }();
  return model;
}

moepack::Result<moepack::Plan> MakeWith(std::string_view input) {
  static const fixtures::TempDir dir;
  if (!fuzz::WriteInput(dir / kName, input))
    return moepack::Error{moepack::Code::kIo, "cannot write the input"};
  moepack::PlanOptions options;
  options.groups = 2;
  options.partition = "same";
  options.scores = std::make_shared<const moepack::ExpertScores>(kPlanted.Make());
  options.pin_file = dir / kName;
  return moepack::MakePlan(Model(), options);
}

std::string Check(std::string_view input) {
  const auto plan = MakeWith(input);
  // A plan that has no room for the pins names --pin, --groups or the layer, not the file.
  if (!plan) return fuzz::ErrorProblem(plan.error(), "");
  if (const auto status = moepack::CheckPlan(kName, *plan); !status) return status.error().message;
  const auto document = moepack::ParseJson(kName, input);
  if (!document) return "a plan with pins that are not JSON";
  const moepack::JsonFields fields(*document, kName);
  const auto layers = fields.Object("layers");
  if (!layers) return "a plan without pins";
  const auto pins = moepack::LayerExpertsFromJson(kName, **layers, plan->layers);
  if (!pins) return pins.error().message;
  for (const auto& [layer, ids] : *pins) {
    for (size_t group = 0; group < plan->groups.size(); ++group) {
      const moepack::ExpertIds eligible = moepack::Eligible(*plan, group, layer);
      if (!std::includes(eligible.begin(), eligible.end(), ids.begin(), ids.end()))
        return moepack::Cat("layer ", layer, ": a group without a pinned expert");
    }
  }
  return "";
}

bool Accepts(std::string_view input) { return MakeWith(input).has_value(); }

constexpr fuzz::Target kTarget{
    .check = Check, .seeds = Seeds, .iterations = 2000, .accepts = Accepts, .refused = Refused};

}  // namespace pins_target

FUZZ_JSON_TARGET(FuzzPins, pins_target::kTarget)
