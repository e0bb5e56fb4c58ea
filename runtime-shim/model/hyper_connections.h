// Hyper-connections: several residual streams, which every block mixes by weights that it computes
// for each token. In plain floats. Sources: "Hyper-Connections" (arXiv 2409.19606),
// "mHC: Manifold-Constrained Hyper-Connections" (arXiv 2512.24880); llama.cpp's
// src/models/deepseek4.cpp for the order of operations.
//
// The host computes the weights for every executor, just as it weighs experts. The projection
// before it runs on the executor, and so do the weighted sums of streams.
#pragma once

#include <span>
#include <vector>

#include "libshard/graph/shapes.h"

namespace moepack::runtime {

// The small tensors of a mixture; the first `count` numbers of `base` are of what is read, as many
// of what is written, and the others of what streams keep.
struct StreamConstants {
  std::vector<float> scale;  // 3: of reading, writing, keeping; of the model's head only the first
  std::vector<float> base;   // shape.projected(); of the model's head shape.count
};

// The weights of a token.
struct StreamMix {
  std::vector<float> read;   // count: the block's input is the sum of streams times these
  std::vector<float> write;  // count: what each stream gets of the block's output
  std::vector<float> keep;   // [from][to]: what each stream passes on to each; rows and columns sum
                             // up to about one
};

// `projected` are shape.projected() values: the normed streams times the mixture's matrix.
StreamMix MixStreams(const StreamShape& shape, const StreamConstants& constants,
                     std::span<const float> projected);
// The weights with which the model's head reads the streams; `projected` are shape.count values.
std::vector<float> ReadStreams(const StreamShape& shape, const StreamConstants& constants,
                               std::span<const float> projected);

// Makes rows and columns of a matrix of count x count numbers sum up to one, nearly: the softmax
// of each row, and then turns of dividing columns and rows by their sums (Sinkhorn-Knopp).
void Balance(const StreamShape& shape, std::span<float> matrix);

}  // namespace moepack::runtime
