// ReadFamilyFile: a parsed table is one that the matcher can work with.

#include "fixtures/temp_dir.h"
#include "libshard/model/family.h"
#include "tests/fuzz/target.h"

namespace family_file_target {

constexpr const char* kName = "family.json";

std::vector<std::string> Seeds() {
  return {R"({"name": "a-moe", "architectures": ["A"], "model_types": ["a"],
             "prefixes": ["model.", "m."], "routing": {"gating": "sigmoid", "normalize": false},
             "rules": [
             {"pattern": "layers.{L}.experts.{E}.up_proj.{W}", "part": "expert", "role": "up"},
             {"pattern": "layers.{L}.gate.{W}", "part": "router", "role": "router",
              "expert_axis": 0},
             {"pattern": "layers.{L}.{*}norm.weight", "part": "trunk", "role": "norm"},
             {"pattern": "vision_{**}", "part": "trunk", "role": "vision"}]})",
          R"({"name": "b", "rules": [
             {"pattern": "b.{L}.w{W}", "part": "expert", "role": "gate_up", "expert_axis": -1,
              "folded": true},
             {"pattern": "mtp.{M}.x.{N}.{W}", "part": "trunk", "role": "mtp"},
             {"pattern": "b.{L}.ids", "part": "router", "role": "t", "expert_axis": 1,
              "holds_expert_ids": true}]})"};
}

std::string FamilyProblem(const moepack::Family& family) {
  bool experts = false;
  for (const moepack::TensorRule& rule : family.rules) {
    if (const std::string problem = moepack::RuleProblem(rule); !problem.empty()) return problem;
    experts = experts || rule.part == moepack::Part::kExpert;
  }
  if (!experts) return "a family without experts";
  moepack::FamilyMatcher matcher(family, 4);
  for (const char* name : {"model.layers.3.experts.17.up_proj.weight", "b.2.wbias", "mtp.1.x.2",
                           "m.layers.1.gate.weight", "vision_1.2", "", ".", "9.9.9"}) {
    const moepack::TensorClass found = matcher.Classify(name);
    if (found.rule == nullptr) continue;
    const bool ours =
        found.rule >= family.rules.data() && found.rule < family.rules.data() + family.rules.size();
    if (!ours) return "a rule of no family";
  }
  return "";
}

std::string Check(std::string_view input) {
  static const fixtures::TempDir dir;
  if (!fuzz::WriteInput(dir / kName, input)) return "cannot write the input";
  const auto family = moepack::ReadFamilyFile((dir / kName).string());
  return family ? FamilyProblem(*family) : fuzz::ErrorProblem(family.error(), kName);
}

constexpr fuzz::Target kTarget{Check, Seeds};

}  // namespace family_file_target

FUZZ_JSON_TARGET(FuzzFamilyFile, family_file_target::kTarget)
