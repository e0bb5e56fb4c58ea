// Estimates what a refit will need, before it runs.
#pragma once

#include <cstdint>
#include <vector>

#include "libshard/plan/plan.h"
#include "runtime-shim/refit/refit_options.h"
#include "runtime-shim/session/session.h"

namespace moepack::runtime {

struct RefitEstimate {
  // Tokens of text that give each expert of a node 30 times as many as it has neurons, if all are
  // chosen equally often: the largest number over all groups and layers.
  uint64_t tokens_needed = 0;
  // The trunk, experts as they are in memory at once (those of one layer if they are read a layer
  // at a time), and what nodes have in a layer.
  uint64_t weight_bytes = 0;
  uint64_t row_bytes = 0;     // streams and activations of all tokens
  uint64_t matrix_bytes = 0;  // the largest matrices of any step
  bool joint = false;         // ridge regression for all experts of a node at once, in every layer
  double products = 0;        // multiply-adds, approximately
};

// The estimate in the method's README: tokens per expert for each of its neurons.
inline constexpr uint64_t kTokensPerNeuron = 30;

// For this many tokens of text, and for some of the groups; null: for all. REQUIRES: the plan is
// for the model.
RefitEstimate EstimateRefit(const Model& model, const Plan& plan, const RefitOptions& options,
                            uint64_t tokens, const std::vector<uint32_t>* groups = nullptr);

}  // namespace moepack::runtime
