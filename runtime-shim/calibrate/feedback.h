// Encodes a matrix so that what the rounding of a column loses is taken up by the columns that are
// still open: GPTQ (arXiv 2210.17323) in the form of LDLQ (arXiv 2307.13304), on the grids of
// ggml's types.
//
// With A = V D V', V unit upper triangular, the error of an encoded matrix E = W - Q on inputs with
// second moments A is tr(E A E') = sum over k of D_k |(E V)_k|^2. Column k is therefore rounded
// after sum over j < k of E_j V_jk has been added to it. Where the values of some columns are one
// point of a code book, they are chosen together (GPTVQ, arXiv 2402.15319).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "quant/format.h"
#include "runtime-shim/calibrate/feedback_factor.h"
#include "runtime-shim/calibrate/moments.h"

namespace moepack::runtime {

// Weights [rows, n] to encode, and what they are encoded as.
struct FeedbackMatrix {
  std::span<const float> weights;
  size_t columns = 0;
  const quant::Format* format = nullptr;
  size_t rows() const { return weights.size() / columns; }
};

// How many consecutive columns of a type are chosen together.
size_t ColumnsTogether(const quant::Format& format);

// The blocks of the matrix, row after row. The weights are first moved to those whose products with
// the encoded model's inputs are nearest to the model's own products (the drift); scales are
// searched for the moved weights by the type's encoder, with each of `importances` [n] in turn, and
// every row takes those with which it has the least error. `jobs`: threads; the bytes do not depend
// on them. REQUIRES: the factor keeps ColumnsTogether columns together.
std::vector<std::byte> EncodeWithFeedback(const FeedbackMatrix& matrix,
                                          const FeedbackFactor& factor,
                                          std::span<const std::vector<float>> importances,
                                          size_t jobs);

// Measures encoded matrices on tokens with certain moments.
class ProductErrors {
 public:
  explicit ProductErrors(const InputMoments& moments);
  // How far products with the encoded matrix are from the model's own: sum over the tokens of |W
  // x_full - Q x|^2, less the part that does not depend on Q.
  double Of(const FeedbackMatrix& matrix, std::span<const std::byte> encoded, size_t jobs) const;

 private:
  size_t columns_;
  std::vector<float> own_, drift_;  // row j of drift_ is -2 times column j of the drift
};

}  // namespace moepack::runtime
