// ParseImatrix in both formats, and ApplyImatrix with its result.
#include <cmath>

#include "libshard/recipe/imatrix_read.h"
#include "tests/fuzz/target.h"
#include "tests/libshard/recipe/imatrix_file.h"
#include "tests/libshard/recipe/recipe_model.h"

namespace imatrix_target {

constexpr const char* kPath = "damaged.imatrix";

std::vector<std::string> Seeds() {
  const std::vector<fixtures::ImatrixPart> parts = {
      {"blk.0.attn_q.weight", {1, 2}, {2}},
      {"blk.0.ffn_gate_exps.weight", {1, 2, 3, 4}, {1, 0}},
      {"blk.0.ffn_up_exps.weight", {1, 2, 3, 4}, {1, 3}}};
  const std::vector<fixtures::ImatrixPart> old = {{"blk.0.attn_q.weight", {1, 2}, {2}},
                                                  {"blk.0.ffn_up_exps.weight", {1, 1, 3, 4}, {1}}};
  const std::string trailer = fixtures::GgufNumber(7, 4) + fixtures::GgufNumber(4, 4) + "text";
  return {fixtures::GgufBytes(fixtures::ImatrixFile(parts)), fixtures::LegacyImatrix(old),
          fixtures::LegacyImatrix(old, trailer)};
}

moepack::GgufModel Model() {
  moepack::GgufModel model;
  model.tensors = {moepack::RecipeTensor("blk.0.attn_q.weight", {2, 2}),
                   moepack::RecipeTensor("blk.0.ffn_gate_exps.weight", {2, 2, 2}),
                   moepack::RecipeTensor("blk.0.ffn_up_exps.weight", {2, 2, 2})};
  return model;
}

std::string EntryProblem(const moepack::ImatrixEntry& entry) {
  if (entry.counts.empty() || entry.sums.empty()) return "an entry without numbers";
  if (entry.sums.size() % entry.counts.size() != 0) return "sums that fit no count";
  for (const auto* numbers : {&entry.sums, &entry.counts}) {
    for (const float number : *numbers) {
      if (!std::isfinite(number) || number < 0) return "a number that is no mean square";
    }
  }
  return "";
}

// Every value that a quantizer gets is a number.
std::string UseProblem(const moepack::Imatrix& imatrix) {
  moepack::GgufModel model = Model();
  const auto use = moepack::ApplyImatrix(imatrix, model);
  if (!use) return fuzz::ErrorProblem(use.error(), imatrix.file);
  for (const moepack::GgufTensor& tensor : model.tensors) {
    if (tensor.importance == nullptr) continue;
    const auto& values = tensor.importance->values;
    const uint64_t slices = tensor.shape.size() == 3 ? tensor.shape[0] : 1;
    if (values.size() != slices * tensor.row_values()) return "rows of another length";
    for (const float value : values) {
      if (std::isnan(value) || value < 0) return "an importance that is no number";
    }
  }
  return "";
}

std::string Check(std::string_view input) {
  const auto imatrix = moepack::ParseImatrix(kPath, std::as_bytes(std::span(input)));
  if (!imatrix) return fuzz::ErrorProblem(imatrix.error(), kPath);
  if (imatrix->entries.empty()) return "accepted without entries";
  for (const auto& [name, entry] : imatrix->entries) {
    const std::string problem = EntryProblem(entry);
    if (!problem.empty()) return moepack::Cat(problem, " in ", moepack::Quoted(name));
  }
  return UseProblem(*imatrix);
}

constexpr fuzz::Target kTarget{Check, Seeds, 20'000};

}  // namespace imatrix_target

FUZZ_TARGET(FuzzImatrix, imatrix_target::kTarget)
