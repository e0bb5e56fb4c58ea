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

// How moments of few tokens are made safer: with u = C n / (t + C n) for t tokens and n columns,
// they become (1 - u) times themselves plus u times `towards`, scaled to the same trace, or, if
// that is null, plus u times their own diagonal.
struct Shrinking {
  double amount = 0;  // C
  const InputMoments* towards = nullptr;
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
