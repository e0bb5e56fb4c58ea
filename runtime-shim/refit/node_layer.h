// One MoE layer of one node during a refit: its inputs, its target outputs, and what its experts
// produce.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/routing.h"
#include "libshard/refit/refit_store.h"
#include "runtime-shim/refit/node_experts.h"
#include "runtime-shim/refit/products.h"
#include "runtime-shim/refit/row_store.h"

namespace moepack::runtime {

// What the router chose for each of T tokens: indexes into the node's experts, best first, and the
// gates. [T * top_k]
struct Routes {
  size_t top_k = 0;
  std::vector<uint32_t> places;
  std::vector<float> gates;
};

// The tokens of one expert, ascending, and the gate of each.
struct ExpertTokens {
  std::vector<uint32_t> tokens;
  std::vector<float> gates;
};

// The factors of an expert's down projection for all tokens that chose it: [t, F], with gates.
struct HeldActivations {
  std::vector<uint32_t> tokens;
  std::vector<float> values;
};

// Borrows what it points to.
struct NodeLayer {
  Routing routing;  // like the model's: expert_count and ids are those of the source
  ExpertForm form;
  RefittedExperts experts;                  // all that the node's router may pick, ascending
  std::vector<bool> fixed;                  // which of these stay as they are
  std::vector<float> scales;                // what multiplies each expert's gates; empty: nothing
  const RowStore* router_inputs = nullptr;  // [T, R]
  const RowStore* inputs = nullptr;         // [T, H], of the experts; often the same
  const RowStore* targets = nullptr;        // [T, H], what the experts should produce together
  RowStore* outputs = nullptr;              // [T, H], what they produce
  // The weight of each token's squared error. A token counts in one of the two, or in neither.
  std::vector<float> fit_weights, fold_weights;
  uint64_t least_tokens = 0;  // an expert with fewer tokens in the fit stays as it is
  Routes routes;
  // By expert, as they are for routes, gate and up of the last RunNode; empty if they would take
  // more than activation_memory bytes.
  std::vector<HeldActivations> held;
  uint64_t activation_memory = UINT64_MAX;

  size_t tokens() const { return fit_weights.size(); }
  float scale(size_t place) const { return scales.empty() ? 1 : scales[place]; }
};

// What the router chooses by these logits, [tokens, n]. Errors are those of SelectExperts.
Result<Routes> ChooseExperts(const NodeLayer& node, std::span<const float> logits, size_t jobs);
// Lets the router choose for all tokens. Errors are those of SelectExperts.
Status RouteNode(Products& products, NodeLayer& node);
// Sets the outputs to those of the experts for the routes.
Status RunNode(Products& products, NodeLayer& node);
// The same, with less work, where only down projections have changed since.
Status RunDown(Products& products, NodeLayer& node);
// The weighted sum of |target - output|^2 over the tokens of the fold, divided by that of
// |target|^2. 0 if no token is in the fold, or all targets are 0.
Result<double> FoldError(const NodeLayer& node);

// For each expert, the tokens that picked it; if `fit`, only those with a weight in the fit.
std::vector<ExpertTokens> TokensOfExperts(const NodeLayer& node, bool fit);
// The experts that may change: those that are not fixed and do not have too few tokens.
std::vector<size_t> ChangingExperts(const NodeLayer& node, std::span<const ExpertTokens> tokens);

// The data of an expert's tokens for a least-squares fit: rows scaled by the roots of the tokens'
// weights.
struct ExpertSample {
  std::vector<float> roots;      // roots of the weights, [t]
  std::vector<float> residuals;  // [t, H], of targets - outputs, scaled
};
// These reuse the memory of their last argument: fresh pages for each expert were a large part of a
// refit's time.
Status TakeSample(const NodeLayer& node, std::span<const uint32_t> tokens, size_t jobs,
                  ExpertSample& sample);
// The factors of the down projection of the expert at this place for these of its tokens,
// ascending: [t, F].
Status TakeActivations(Products& products, const NodeLayer& node, size_t place,
                       const ExpertTokens& tokens, std::vector<float>& activations);
// The same, each row times the root of its token's weight.
Status ScaledActivations(Products& products, const NodeLayer& node, size_t place,
                         const ExpertTokens& tokens, std::vector<float>& scaled);

}  // namespace moepack::runtime
