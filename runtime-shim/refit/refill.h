// Refill: an expert replaces the neurons that it can spare by neurons of other experts that explain
// what is missing. A neuron is a row of gate and up and a column of down.
//
// For the tokens of an expert, with what is missing there, r = Y - y:
//   1. Every neuron i of every other expert is scored as if this expert had it, on a sample and
//      approximately (neuron_scores.h); those with the largest scores are scored exactly, by
//      |phi_i' r|^2 / (phi_i'phi_i + 0.001 * mean of phi'phi).
//   2. The best `pool` of them join the expert's own F, and ridge regression of r plus the expert's
//      own part on them gives A and W (as in ridge.h, with W0 = 0).
//   3. In two rounds, the neurons with the smallest |W_i|^2 / (A^-1)_ii, which is how much the
//      error grows without neuron i (optimal brain surgery; Hassibi and Stork 1993), are removed
//      again until F are left, and W is solved again.
// Then the next expert sees what this one leaves.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/refit/neuron_scores.h"
#include "runtime-shim/refit/node_layer.h"
#include "runtime-shim/refit/refit_options.h"

namespace moepack::runtime {

// At most about this many of an expert's tokens determine the exact scores, of this many times the
// pool.
inline constexpr uint64_t kScoredTokens = 2500;
inline constexpr uint64_t kCandidates = 2;

// What the activations of the sample may take: a share of the memory for matrices, but enough for a
// small layer.
inline uint64_t ScoredMemory(const RefitOptions& options) {
  constexpr uint64_t kLeast = 64 << 20;
  return std::max(kLeast, options.matrix_memory() / 4 * 3);
}

// Every n-th of an expert's tokens, so that there are about `wanted`.
ExpertTokens SomeTokens(const ExpertTokens& tokens, uint64_t wanted);

// The neurons with the largest costs, `count` of them and ascending: `costs` has one for each of
// `kept`.
std::vector<size_t> KeepLargest(std::span<const double> costs, std::span<const size_t> kept,
                                size_t count);
// Costs change once neurons are gone, so half of them go first, and the others by new costs.
inline constexpr uint32_t kRoundsOfRemoval = 2;
// How many neurons are left after a round, counted from 0, of an expert's own and those that
// joined.
inline size_t LeftAfterRound(size_t own, size_t joined, uint32_t round) {
  return own + joined * (kRoundsOfRemoval - 1 - round) / kRoundsOfRemoval;
}

// By how much the outputs of all tokens of an expert change, [t, H], and how many of its neurons
// were others' before. No values if no neuron fires.
struct RefilledExpert {
  std::vector<float> change;
  uint64_t moved = 0;
};

// Says that the normal matrix of an expert and the neurons that join it is not positive definite.
Error ExpertNotDefinite(const NodeLayer& node, size_t place);

// REQUIRES: routes and outputs match the experts. Leaves new experts and their outputs. Returns how
// many neurons moved. Errors are those of RidgeDown.
Result<uint64_t> RefillExperts(Products& products, const RefitOptions& options,
                               const NeuronSource& source, NodeLayer& node);

}  // namespace moepack::runtime
