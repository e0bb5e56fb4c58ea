// Chooses types so that a model fits in a given number of bytes with the least damage, which is
// estimated from the weights and an importance matrix, without running the model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/model.h"
#include "libshard/plan/plan.h"
#include "libshard/recipe/quantize.h"

namespace moepack {

struct TypeBudgetOptions {
  uint64_t bytes = 0;          // of the data of all tensors
  const Plan* plan = nullptr;  // the bytes are those of its largest node; null: of the whole model
  uint32_t sample_rows = 64;   // of every matrix (DamageSample)
  size_t jobs = 0;             // threads
};

// The tensors that share one type: the gate and up experts of a layer, its down experts, its
// attention, its dense or shared matrices; the embedding; the output.
struct BudgetedPart {
  std::optional<uint32_t> layer;
  std::string part;  // "gate, up", "down", "attention", "shared", "dense", "embedding", "output"
  std::string type;  // the name of the chosen type
  uint64_t bytes = 0;
  double damage = 0;  // summed over its matrices (MeasureDamage x ShareOf)
};

struct TypeBudget {
  std::vector<std::string> tensor_types;  // rules for RecipeOptions::tensor_types
  std::vector<BudgetedPart> parts;        // by layer, then part; those without a layer come first
  uint64_t bytes = 0;                     // of all tensors, including those that no recipe changes
  double damage = 0, bound = 0;           // as in BitPlan
};

// `base` is the model with the types of a recipe: matrices that no recipe changes keep theirs, and
// the others may keep theirs if that is best. Experts may become q2_K to q8_0, the trunk q4_K to
// q8_0, because it is small and every token needs it. Bytes are exact; those of a plan's node are
// for the largest eligible count of every layer.
//
// With an importance matrix that covers the model, the damage of a matrix is weighted by the share
// of the residual stream that its block writes (MeasureResidualShares); without one, all matrices
// count equally.
//
// kInvalidArgument, with the number of bytes, if even the smallest types take more; errors of
// reading and of MeasureDamage. kUnsupported for a checkpoint without data.
Result<TypeBudget> SpendTypes(const MoeModel& model, const TypedGguf& base,
                              const TypeBudgetOptions& options);

}  // namespace moepack
