// Residual attention (Kimi-K3): a row is the mean of what its stream was in several places, weighed
// by a softmax of scores. Source: llama.cpp's src/models/kimi-k3.cpp.
//
//   score[i] = sum of score * sources[i] / sqrt(mean(sources[i]^2) + eps)
//   out = sum over i of softmax(score)[i] * sources[i]
#pragma once

#include <span>

#include "runtime-shim/executor/executor.h"

namespace moepack::runtime {

// out[row] = sum over i of weights[row * sources.size() + i] * sources[i][row]
void SumWeighed(Executor& executor, std::span<const Rows> sources, std::span<const float> weights,
                const Rows& out);

struct ResidualMix {
  std::span<const Rows> sources;  // at least one, of equal size
  Matrix score;                   // one row, as wide as they are
  float eps = 0;
  Rows normed, scores;  // scratch: as a source; as many rows with a value for each source
};

// Computes it with operations of the executor; the host reads the scores and weighs the sources.
Status MixResiduals(Executor& executor, const ResidualMix& mix, const Rows& out);

}  // namespace moepack::runtime
