// Chooses types so that a model fits in a given number of bytes with the least damage, which is
// estimated from the weights and an importance matrix, without running the model.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/files/byte_source.h"
#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/model/model.h"
#include "libshard/plan/plan.h"
#include "libshard/recipe/quantize.h"

namespace moepack {

// How much each block contributes to what flows through a model, estimated from weights and an
// importance matrix. This makes errors in different layers comparable.

// For one layer, the share of the residual stream's energy after the block that comes from the
// block's output: between 0 and 1.
struct LayerShares {
  double attention = 1;
  double experts = 1;  // the routed ones together
  double shared = 1;   // shared experts, or the MLP of a layer without experts
};
using ResidualShares = std::map<uint32_t, LayerShares>;

// The energy of a stream is the mean of its square, summed over its columns. The outputs of blocks
// are assumed to be uncorrelated, so that their energies add up:
//
//   embedding:  E = mean square of a row
//   block:      E += s * sum over rows r and columns c of m(c) w(r, c)^2    of its last matrix
//
// with m from the importance matrix. The chosen experts are assumed to get equal gates, so s is 1 /
// top-k for them, and each expert is weighted by its tokens. Everything is measured on
// `sample_rows` rows of a matrix (DamageSample). Empty if the importance matrix has nothing for the
// last matrix of some block. Errors of reading.
Result<ResidualShares> MeasureResidualShares(const TypedGguf& typed,
                                             std::span<const ByteSourcePtr> sources,
                                             uint32_t sample_rows);

// The share of the block that a tensor belongs to; 1 for tensors outside layers and for layers that
// are not in `shares`.
double ShareOf(const ResidualShares& shares, const GgufTensor& tensor);

// What experts may get unless the options name others. Runtimes compute with k-quants and iq4_xs
// about as fast as they read them; with the smaller IQ types the CPU is slower.
inline constexpr std::array kExpertTypes = {"q2_K", "q3_K", "iq4_xs", "q4_K",
                                            "q5_K", "q6_K", "q8_0"};

struct TypeBudgetOptions {
  uint64_t bytes = 0;          // of the data of all tensors
  const Plan* plan = nullptr;  // the bytes are those of its largest node; null: of the whole model
  std::vector<const quant::Format*> expert_types = {};  // that experts may get; empty: kExpertTypes
  uint32_t sample_rows = 64;                            // of every matrix (DamageSample)
  size_t jobs = 0;                                      // threads
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
// the others may keep theirs if that is best. Experts may become `expert_types`, the trunk q4_K to
// q8_0, because it is small and every token needs it. Bytes are exact; those of a plan's node are
// for the largest eligible count of every layer.
//
// With an importance matrix that covers the model, the damage of a matrix is weighted by the share
// of the residual stream that its block writes (MeasureResidualShares); without one, all matrices
// count equally.
//
// kInvalidArgument, with the number of bytes, if even the smallest types take more, and for a type
// that needs importance where an expert tensor has none; errors of reading and of MeasureDamage.
// kUnsupported for a checkpoint without data.
Result<TypeBudget> SpendTypes(const MoeModel& model, const TypedGguf& base,
                              const TypeBudgetOptions& options);

}  // namespace moepack
