// Adam (Kingma and Ba 2015): gradient descent in which each value moves by about the same amount.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime-shim/executor/gradient_formulas.h"

namespace moepack::runtime {

// A measure of how large an array's values are. 0 for none.
double RootMeanSquare(std::span<const float> values);

// Rates that are a share of that of an array as it was at first, so that small values and large
// ones move alike.
class RelativeRate {
 public:
  explicit RelativeRate(std::span<const float> values) : size_(RootMeanSquare(values)) {}
  double Of(double share) const { return share * size_; }

 private:
  double size_;
};

// What the n-th step of some values needs, counted from 1, if each moves by about `rate`: it is
// divided by how far the running means have come, and the squares are multiplied to make up for the
// same.
AdamStep NthStep(double rate, uint32_t n);

// One step of some values: their slopes, and the running means of these and of their squares.
struct AdamMove {
  const float* slopes = nullptr;
  float* firsts = nullptr;
  float* seconds = nullptr;
  float* values = nullptr;
  AdamStep step;
};
// Both do what MoveValue does, with the same bits.
void MoveValues(const AdamMove& move, size_t count);
void MoveValuesRef(const AdamMove& move, size_t count);

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

// The batches of a gradient descent: every row comes once before any comes again, and each round
// has another order, so that the noise of one batch is made up for by the others of its round. A
// descent that is run again has the same batches.
class Batches {
 public:
  // Of at most `size` of the rows.
  Batches(size_t rows, size_t size);
  // Indexes of rows. All of them, in order, if there are not more than the size. A batch that ends
  // one round and begins the next may have a row twice.
  std::vector<uint32_t> Next();
  size_t size() const { return size_; }

 private:
  std::vector<uint32_t> order_;
  size_t size_, next_;
  uint64_t round_ = 0;
};

}  // namespace moepack::runtime
