// The experts of a layer and the rows of a batch that picked them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime-shim/executor/shapes.h"

namespace moepack::runtime {

struct Linear {
  Matrix weight, bias;
};

// Without a gate, the activation applies to `up` alone.
struct MlpWeights {
  Linear gate, up, down;
  float output_scale = 1;  // multiplies an expert's gates (Gemma-4)
  // The first matrix; its rows are the width of the MLP.
  const Linear& first() const { return gate.weight ? gate : up; }
  uint32_t inner() const { return first().weight.rows; }
  explicit operator bool() const { return static_cast<bool>(down.weight); }
};

// An expert with the rows that picked it, ascending, and the gate of each.
struct ExpertRows {
  const MlpWeights* weights = nullptr;
  std::vector<uint32_t> rows;
  std::vector<float> gates;
};

struct ExpertBatch {
  std::span<const ExpertRows> experts;  // in ascending id; each has at least one row
  Rows x, sum;                          // all rows of the batch
  Activation activation = Activation::kSilu;
  bool weigh_inputs = false;  // the gates multiply the experts' inputs instead of their outputs
  // Scratch rows, as many as x has: as wide as x, and as the widest expert.
  Rows in, out, gate, up;
  Rows zeros;  // as x, all zero
  Rows sizes;  // scratch of two values for each row of each expert
};

// For each row, the Euclidean norm and the largest magnitude of an expert's output before the gate.
// One value per row, expert after expert.
struct OutputSizes {
  std::vector<float> norms, peaks;
};

}  // namespace moepack::runtime
