// Adam (Kingma and Ba 2015): gradient descent in which each value moves by about the same amount.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime-shim/executor/shapes.h"

namespace moepack::runtime {

// A measure of how large an array's values are, for rates that are a share of it. 0 for none.
double RootMeanSquare(std::span<const float> values);

// One step of some values: their slopes, their running means and squares, and the rate, divided by
// how far these means have come, and the factor of the squares that makes up for the same.
struct AdamMove {
  const float* slopes = nullptr;
  float* firsts = nullptr;
  float* seconds = nullptr;
  float* values = nullptr;
  float rate = 0, of_second = 0;
};
// Both give the same bits. A slope that is not a number counts as 0.
void MoveValues(const AdamMove& move, size_t count);
void MoveValuesRef(const AdamMove& move, size_t count);

// What the n-th step of some values needs, counted from 1, if each moves by about `rate`.
AdamStep NthStep(double rate, uint32_t n);

// The state for one array of values.
class Adam {
 public:
  // `jobs`: threads of a step, 0 for one per core.
  explicit Adam(size_t count, size_t jobs = 1);

  // Moves the values against the gradient, each by about `rate`. A gradient that is
  // not a number counts as 0, and an infinite one as a large one. REQUIRES: as many of both as the
  // state is for.
  void Step(double rate, std::span<const double> gradient, std::span<float> values);
  void Step(double rate, std::span<const float> gradient, std::span<float> values);

 private:
  std::vector<float> first_, second_;  // running means of the gradient and of its square
  uint32_t steps_ = 0;
  size_t jobs_ = 1;
};

// The batches of a gradient descent.

// Indexes of `size` of the rows, with repetition, drawn with the step alone as the seed, so that a
// descent that is run again draws the same ones; all of them, in order, if there are not more than
// `size`.
std::vector<uint32_t> DrawBatch(size_t rows, size_t size, uint32_t step);

}  // namespace moepack::runtime
