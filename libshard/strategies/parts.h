// Cuts the experts of a layer into parts, and decides which parts of different layers belong to
// one group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/expert_ids.h"
#include "libshard/strategies/session_shares.h"

namespace moepack {

// Weights between all pairs of `size` nodes, symmetric.
class PairWeights {
 public:
  explicit PairWeights(size_t size) : size_(size), weights_(size * size) {}

  size_t size() const { return size_; }
  int64_t At(size_t a, size_t b) const { return weights_[a * size_ + b]; }
  void Set(size_t a, size_t b, int64_t weight) {
    weights_[a * size_ + b] = weight;
    weights_[b * size_ + a] = weight;
  }

 private:
  size_t size_;
  std::vector<int64_t> weights_;
};

// Returns the part of every node; part p has sizes[p] nodes. Parts grow around seeds by the largest
// weight to them or, in every other start, are assigned at random; then pairs of nodes are swapped
// as long as that moves weight inside (Kernighan and Lin 1970, with single exchanges). The best of
// `restarts` starts counts; parts of equal size are numbered by their lowest node. REQUIRES: the
// sizes add up to weights.size(); sums of weights fit.
std::vector<uint32_t> CutBalanced(const PairWeights& weights, const std::vector<size_t>& sizes,
                                  size_t restarts, uint64_t seed);

// The weight of the pairs whose nodes are in the same part.
int64_t WeightInside(const PairWeights& weights, const std::vector<uint32_t>& part);

// Decides which parts of different layers belong to one group.

// parts[layer][part]: expert ids. Parts of a layer are swapped as long as sessions then find more
// of what they use in one group: first layer by layer, according to how much sessions used the
// groups in the previous layers, then according to the group that captures most of each session.
// Only parts of the same size are swapped. With fewer sessions than groups nothing is known, so
// nothing changes.
Status MatchParts(const SessionShares& shares, std::vector<std::vector<ExpertIds>>& parts);

}  // namespace moepack
