// Products of whole matrices of weights: decoded tile by tile, each tile multiplied with all rows.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime-shim/executor/shapes.h"

namespace moepack::runtime {

// Decoded weights of one thread, aligned to whole cache lines; grows as needed.
class TileMemory {
 public:
  std::span<float> Get(size_t values);

 private:
  struct Free {
    void operator()(float* memory) const;
  };
  std::unique_ptr<float, Free> memory_;
  size_t size_ = 0;
};

// The addresses of rows.
std::vector<const float*> InputsOf(const Rows& rows);
std::vector<float*> OutputsOf(const Rows& rows);

// y[t][r] = weights[first + r] . x[t] for `count` rows of weights; bits as in dots.h.
struct WeightRows {
  uint32_t first = 0, count = 0;
};
void MultiplyWeights(const Matrix& weights, const WeightRows& range,
                     std::span<const float* const> x, std::span<float* const> y,
                     TileMemory& memory);

}  // namespace moepack::runtime
