// Encodes one matrix with feedback if that is better on held-out text, and without it otherwise.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "runtime-shim/calibrate/calibrate.h"
#include "runtime-shim/calibrate/feedback.h"

namespace moepack::runtime {

// Moments with their factors, for all matrices with the same inputs.
class MatrixEncoder {
 public:
  // Has the factors that matrices of these types need.
  MatrixEncoder(MomentPair moments, std::span<const quant::Format* const> types,
                const Shrinking& shrinking, const CalibrateOptions& options);

  // The blocks of a matrix [rows, n]; counts it.
  std::vector<std::byte> Encode(const FeedbackMatrix& matrix, CalibratedFigures& outcome) const;

 private:
  // Of the text that is learned from, and of all of it.
  struct Factors {
    std::optional<FeedbackFactor> fit, whole;
  };

  const CalibrateOptions& options_;
  std::vector<float> importance_, fit_importance_;  // empty without tokens
  std::map<size_t, Factors> factors_;               // by ColumnsTogether
  std::optional<ProductErrors> errors_;             // on what is held out
};

// Rows [first, first + rows) of a tensor, of which all but the last dimension count as rows.
std::vector<float> DecodedRows(const HostTensor& tensor, uint64_t first, uint64_t rows);

// Blocks as an encoder makes them; `importance` may be empty.
std::vector<std::byte> EncodePlainly(const FeedbackMatrix& matrix,
                                     std::span<const float> importance, size_t jobs);

}  // namespace moepack::runtime
