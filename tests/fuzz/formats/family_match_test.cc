// FamilyMatcher::Classify of every family, given damaged tensor names.
#include <deque>

#include "fixtures/generator.h"
#include "libshard/model/family.h"
#include "tests/fuzz/target.h"

namespace family_match_target {

constexpr uint32_t kLayers = 4;
// {L}, {M} and {E} take at most six digits.
constexpr uint32_t kMaxNumber = 999'999;

std::vector<std::string> Seeds() {
  std::vector<std::string> names = {"", ".", "..", "model.layers.3.mlp.experts.17.up_proj.weight"};
  for (const std::string& layout : fixtures::Layouts()) {
    const auto tensors = fixtures::DescribeCheckpoint(layout).tensors;
    // Names of a layout resemble their neighbours.
    for (size_t i = 0; i < tensors.size(); i += 7) names.push_back(tensors[i].name);
  }
  return names;
}

std::string ClassProblem(const moepack::Family& family, const moepack::TensorClass& found) {
  if (found.rule == nullptr) return "";
  const bool ours =
      found.rule >= family.rules.data() && found.rule < family.rules.data() + family.rules.size();
  if (!ours) return "a rule of no family";
  const bool numbered = found.rule->pattern.find("{E}") != std::string::npos;
  if (numbered != found.expert.has_value()) return "an expert without {E}, or none with it";
  const bool layered = found.rule->pattern.find("{L}") != std::string::npos ||
                       found.rule->pattern.find("{M}") != std::string::npos;
  if (layered != found.layer.has_value()) return "a layer without {L} or {M}, or none with it";
  const bool fits =
      found.expert.value_or(0) <= kMaxNumber && found.layer.value_or(0) <= kMaxNumber + kLayers;
  return fits ? "" : "a number of more than six digits";
}

bool Same(const moepack::TensorClass& a, const moepack::TensorClass& b) {
  return a.rule == b.rule && a.layer == b.layer && a.expert == b.expert && a.mtp == b.mtp &&
         a.leaf == b.leaf;
}

// A matcher remembers shapes: it is asked twice, and replaced before it remembers too many.
std::string Check(std::string_view input) {
  static std::deque<moepack::FamilyMatcher> matchers;
  static size_t calls = 0;
  const moepack::FamilyList families = moepack::AllFamilies();
  if (calls++ % 10'000 == 0) {
    matchers.clear();
    for (const auto& family : families) matchers.emplace_back(family, kLayers);
  }
  const std::string copy(input);  // of the exact length, so that a read past its end is detected
  for (size_t i = 0; i < families.size(); ++i) {
    const moepack::TensorClass found = matchers[i].Classify(copy);
    std::string problem = ClassProblem(families[i], found);
    if (problem.empty() && !Same(found, matchers[i].Classify(copy))) problem = "another answer";
    if (!problem.empty()) return moepack::Cat(families[i].name, ": ", problem);
  }
  return "";
}

constexpr fuzz::Target kTarget{Check, Seeds, 10'000};

}  // namespace family_match_target

FUZZ_TARGET(FuzzFamilyMatch, family_match_target::kTarget)
