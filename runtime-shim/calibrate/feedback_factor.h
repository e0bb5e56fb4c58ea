// The moments of a matrix's inputs as feedback needs them: A = V D V', V unit upper triangular.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

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

struct FactorOptions {
  double damping = kFeedbackDamping;
  size_t together = 1;  // consecutive columns that stay together; divides n
  size_t jobs = 0;      // threads; 0: one per core
};

// A matrix's moments, factored. [n, n] in the order of the columns: that of falling sums of A_kk
// over those that stay together.
class FeedbackFactor {
 public:
  // No value if the moments are not finite or all 0.
  static std::optional<FeedbackFactor> Of(const InputMoments& moments, const Shrinking& shrinking,
                                          const FactorOptions& options);
  // That of A = 1: no column takes anything up.
  static FeedbackFactor Alike(size_t columns);

  size_t columns() const { return order_.size(); }
  // order()[k] is the column that is encoded as the k-th.
  const std::vector<uint32_t>& order() const { return order_; }
  const std::vector<float>& spreads() const { return spreads_; }  // D
  // Whether V is 1, and has neither rows nor columns.
  bool alike() const { return upper_.empty(); }
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

}  // namespace moepack::runtime
