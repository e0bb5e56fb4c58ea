// Encodes a matrix so that what the rounding of a column loses is taken up by the columns that are
// still open: GPTQ (arXiv 2210.17323) in the form of LDLQ (arXiv 2307.13304), on the grids of
// ggml's types.
//
// With A = V D V', V unit upper triangular, the error of an encoded matrix E = W - Q on inputs with
// second moments A is tr(E A E') = sum over k of D_k |(E V)_k|^2. Column k is therefore rounded
// after sum over j < k of E_j V_jk has been added to it. The columns' order is that of falling
// A_kk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "quant/format.h"
#include "runtime-shim/calibrate/moments.h"

namespace moepack::runtime {

// Added to the diagonal of A, times its mean.
inline constexpr double kFeedbackDamping = 0.01;

// How moments of few tokens are made safer: with u = C n / (t + C n) for t tokens and n columns,
// they become (1 - u) times themselves plus u times `towards`, scaled to the same trace, or, if
// that is null, plus u times their own diagonal.
struct Shrinking {
  double amount = 0;  // C
  const InputMoments* towards = nullptr;
};

// A matrix's moments, factored. [n, n] in the order of the columns.
class FeedbackFactor {
 public:
  // No value if the moments are not finite or all 0.
  static std::optional<FeedbackFactor> Of(const InputMoments& moments, const Shrinking& shrinking,
                                          double damping, size_t jobs);

  size_t columns() const { return order_.size(); }
  // order()[k] is the column that is encoded as the k-th.
  const std::vector<uint32_t>& order() const { return order_; }
  const std::vector<float>& spreads() const { return spreads_; }                 // D
  const float* row(size_t k) const { return upper_.data() + k * columns(); }     // V
  const float* column(size_t k) const { return lower_.data() + k * columns(); }  // V'
  // Row k is column k of the moments' drift; null without one.
  const float* drift(size_t k) const {
    return drift_.empty() ? nullptr : drift_.data() + k * columns();
  }

 private:
  std::vector<uint32_t> order_;
  std::vector<float> spreads_, upper_, lower_, drift_;
};

// Weights [rows, n] to encode, and what they are encoded as.
struct FeedbackMatrix {
  std::span<const float> weights;
  size_t columns = 0;
  const quant::Format* format = nullptr;
  size_t rows() const { return weights.size() / columns; }
};

// The blocks of the matrix, row after row. The weights are first moved to those whose products with
// the encoded model's inputs are nearest to the model's own products (the drift); scales are
// searched for the moved weights by the type's encoder, with each of `importances` [n] in turn, and
// every row takes those with which it has the least error. `jobs`: threads; the bytes do not depend
// on them.
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
