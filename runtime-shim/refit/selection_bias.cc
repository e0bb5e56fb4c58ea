#include "runtime-shim/refit/selection_bias.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "libshard/base/parallel.h"
#include "runtime-shim/model/router.h"

namespace moepack::runtime {
namespace {

constexpr uint32_t kSearchRounds = 3;
// Tokens of the sample that a thread takes at a time, and that take part.
constexpr size_t kTokensOfSearch = 256;
constexpr size_t kMostSearched = 8192;

class BiasSearch {
 public:
  BiasSearch(Products& products, const RouterSample& sample, NodeLayer& node)
      : products_(products),
        sample_(sample),
        node_(node),
        size_(std::min(sample.size(), kMostSearched)) {}

  Status Run() {
    SHARD_CHECK(MakeLogits());
    std::vector<float>& bias = node_.experts.selection_bias;
    SHARD_TRY(double best, ErrorOf(bias));
    // A step of this size can move an expert across the whole range of those chosen.
    double step = Spread();
    for (uint32_t round = 0; round < kSearchRounds; ++round, step /= 2) {
      for (size_t place = 0; place < bias.size(); ++place) {
        if (node_.fixed[place]) continue;
        // This bias only decides which experts are chosen, so the error has no slope in it and is
        // compared.
        for (const double sign : {1.0, -1.0}) {
          SHARD_CHECK(CheckInterrupt());
          std::vector<float> tried = bias;
          tried[place] = static_cast<float>(tried[place] + sign * step);
          SHARD_TRY(const double error, ErrorOf(tried));
          if (error >= best) continue;
          best = error;
          bias = std::move(tried);
          break;
        }
      }
    }
    return Ok();
  }

 private:
  Status MakeLogits() {
    const size_t width = node_.experts.router_width;
    logits_.resize(size_ * node_.experts.expert_ids.size());
    SHARD_TRY(const NodeMatrices matrices, LoadRouter(node_.experts, products_.executor()));
    return products_.Project(matrices.router, std::span(sample_.inputs()).first(size_ * width),
                             logits_);
  }

  std::span<const float> LogitsOf(size_t row) const {
    const size_t n = node_.experts.expert_ids.size();
    return std::span(logits_).subspan(row * n, n);
  }

  Result<double> ErrorOf(const std::vector<float>& bias) const {
    // One sum for each piece, added up in their order: threads must not change the bits.
    std::vector<double> sums((size_ + kTokensOfSearch - 1) / kTokensOfSearch, 0);
    SHARD_CHECK(ParallelFor(sums.size(), products_.jobs(), [&](size_t piece) -> Status {
      const size_t end = std::min((piece + 1) * kTokensOfSearch, size_);
      for (size_t row = piece * kTokensOfSearch; row < end; ++row) {
        SHARD_TRY(const TokenChoice choice, sample_.Choose(node_, row, LogitsOf(row), bias));
        sums[piece] += choice.error;
      }
      return Ok();
    }));
    double sum = 0;
    for (const double part : sums) sum += part;
    return sum;
  }

  // The mean distance between the scores of the best expert and of the one at rank top_k.
  double Spread() const {
    double sum = 0;
    for (size_t row = 0; row < size_; ++row) {
      std::vector<float> scores = GateValues(LogitsOf(row), node_.routing);
      for (size_t place = 0; place < scores.size(); ++place)
        scores[place] += node_.experts.selection_bias[place];
      const size_t last = std::min<size_t>(node_.routing.top_k, scores.size() - 1);
      std::sort(scores.begin(), scores.end(), std::greater<>());
      sum += scores.front() - scores[last];
    }
    return size_ > 0 ? sum / static_cast<double>(size_) : 0;
  }

  Products& products_;
  const RouterSample& sample_;
  NodeLayer& node_;
  const size_t size_;
  std::vector<float> logits_;
};

}  // namespace

Status SearchSelectionBias(Products& products, const RouterSample& sample, NodeLayer& node) {
  if (node.experts.selection_bias.empty()) return Ok();
  return BiasSearch(products, sample, node).Run();
}

}  // namespace moepack::runtime
