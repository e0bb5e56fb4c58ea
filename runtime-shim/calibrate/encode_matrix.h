// Encodes one matrix with feedback if that is better on held-out text, and without it otherwise.
#pragma once

#include <span>
#include <vector>

#include "runtime-shim/calibrate/calibrate.h"
#include "runtime-shim/calibrate/feedback.h"

namespace moepack::runtime {

// The moments of the text that is learned from, and of the text that is held out.
struct MomentPair {
  InputMoments fit, fold;
};

// Moments with their factors, for all matrices with the same inputs.
class MatrixEncoder {
 public:
  MatrixEncoder(MomentPair moments, const Shrinking& shrinking, const CalibrateOptions& options);

  // The blocks of a matrix [rows, n]; counts it.
  std::vector<std::byte> Encode(const FeedbackMatrix& matrix, CalibratedLayer& outcome) const;

 private:
  const CalibrateOptions& options_;
  std::vector<float> importance_, fit_importance_;  // empty without tokens
  std::optional<FeedbackFactor> fit_, whole_;
  std::optional<ProductErrors> errors_;  // on what is held out
};

// Blocks as an encoder makes them; `importance` may be empty.
std::vector<std::byte> EncodePlainly(const FeedbackMatrix& matrix,
                                     std::span<const float> importance, size_t jobs);

}  // namespace moepack::runtime
