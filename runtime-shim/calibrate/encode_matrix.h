// Encodes one matrix with feedback if that is better on held-out text, and without it otherwise.
#pragma once

#include <span>
#include <vector>

#include "runtime-shim/calibrate/calibrate.h"
#include "runtime-shim/calibrate/feedback.h"

namespace moepack::runtime {

// Moments with their factors, for all matrices with the same inputs.
class MatrixEncoder {
 public:
  MatrixEncoder(MomentPair moments, const Shrinking& shrinking, const CalibrateOptions& options);

  // The blocks of a matrix [rows, n]; counts it.
  std::vector<std::byte> Encode(const FeedbackMatrix& matrix, CalibratedFigures& outcome) const;

 private:
  const CalibrateOptions& options_;
  std::vector<float> importance_, fit_importance_;  // empty without tokens
  std::optional<FeedbackFactor> fit_, whole_;
  std::optional<ProductErrors> errors_;  // on what is held out
};

// Rows [first, first + rows) of a tensor, of which all but the last dimension count as rows.
std::vector<float> DecodedRows(const HostTensor& tensor, uint64_t first, uint64_t rows);

// Blocks as an encoder makes them; `importance` may be empty.
std::vector<std::byte> EncodePlainly(const FeedbackMatrix& matrix,
                                     std::span<const float> importance, size_t jobs);

}  // namespace moepack::runtime
