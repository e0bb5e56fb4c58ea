#include "runtime-shim/calibrate/encode_matrix.h"

#include <algorithm>

#include "libshard/base/parallel.h"

namespace moepack::runtime {
namespace {

constexpr size_t kRowsEncoded = 32;

// The weights that feedback leaves to the rounding of each column.
std::vector<float> SpreadsOf(const FeedbackFactor& factor) {
  std::vector<float> out(factor.columns());
  for (size_t k = 0; k < out.size(); ++k) out[factor.order()[k]] = factor.spreads()[k];
  return out;
}

// Some rows of a matrix that stand for all: every eighth tile of them.
std::vector<float> SampleRows(const FeedbackMatrix& matrix) {
  constexpr size_t kTile = kRowsEncoded, kEvery = 8;
  std::vector<float> rows;
  for (size_t first = 0; first < matrix.rows(); first += kEvery * kTile) {
    const size_t count = std::min(kTile, matrix.rows() - first);
    const auto some = matrix.weights.subspan(first * matrix.columns, count * matrix.columns);
    rows.insert(rows.end(), some.begin(), some.end());
  }
  return rows;
}

}  // namespace

std::vector<float> DecodedRows(const HostTensor& tensor, uint64_t first, uint64_t rows) {
  const uint64_t columns = tensor.shape.back();
  const uint64_t row_bytes = *tensor.format->BytesFor(columns);
  std::vector<float> values(rows * columns);
  tensor.format->decode(tensor.bytes.Part(first * row_bytes, rows * row_bytes), values);
  return values;
}

std::vector<std::byte> EncodePlainly(const FeedbackMatrix& matrix,
                                     std::span<const float> importance, size_t jobs) {
  const size_t row_bytes = *matrix.format->BytesFor(matrix.columns);
  std::vector<std::byte> out(matrix.rows() * row_bytes);
  const std::vector<float> ones(matrix.columns, 1);
  if (importance.empty() && matrix.format->needs_importance) importance = ones;
  if (!matrix.format->uses_importance) importance = {};
  ForPieces(matrix.rows(), kRowsEncoded, jobs, [&](size_t first, size_t end) {
    matrix.format->encode(
        matrix.weights.subspan(first * matrix.columns, (end - first) * matrix.columns), importance,
        std::span(out).subspan(first * row_bytes, (end - first) * row_bytes));
  });
  return out;
}

MatrixEncoder::MatrixEncoder(MomentPair moments, std::span<const quant::Format* const> types,
                             const Shrinking& shrinking, const CalibrateOptions& options)
    : options_(options) {
  const bool enough = moments.fit.tokens >= options.least_tokens && moments.fold.tokens > 0;
  const auto add_factors = [&](std::optional<FeedbackFactor> Factors::*member) {
    for (const quant::Format* type : types) {
      const size_t together = ColumnsTogether(*type);
      std::optional<FeedbackFactor>& factor = factors_[together].*member;
      if (factor) continue;
      factor =
          FeedbackFactor::Of(moments.fit, shrinking, {kFeedbackDamping, together, options.jobs});
    }
  };
  if (enough) {
    fit_importance_ = moments.fit.diagonal();
    add_factors(&Factors::fit);
    errors_.emplace(moments.fold);
  }
  moments.fit.Add(moments.fold);
  if (moments.fit.tokens > 0) importance_ = moments.fit.diagonal();
  if (enough) add_factors(&Factors::whole);
}

std::vector<std::byte> MatrixEncoder::Encode(const FeedbackMatrix& matrix,
                                             CalibratedFigures& outcome) const {
  ++outcome.matrices;
  const auto found = factors_.find(ColumnsTogether(*matrix.format));
  if (found == factors_.end() || !found->second.fit || !found->second.whole) {
    ++outcome.few_tokens;
    return EncodePlainly(matrix, importance_, options_.jobs);
  }
  const FeedbackFactor &fit = *found->second.fit, &whole = *found->second.whole;
  const std::vector<float> rows = SampleRows(matrix);
  const FeedbackMatrix sample{rows, matrix.columns, matrix.format};
  const double share =
      static_cast<double>(matrix.weights.size()) / static_cast<double>(rows.size());
  const double plain =
      share * errors_->Of(sample, EncodePlainly(sample, importance_, options_.jobs), options_.jobs);
  const std::vector<std::vector<float>> fit_importances = {fit_importance_, SpreadsOf(fit)};
  const double error =
      share * errors_->Of(sample, EncodeWithFeedback(sample, fit, fit_importances, options_.jobs),
                          options_.jobs);
  outcome.error_plain += plain;
  if (!(error < plain)) {
    ++outcome.worse;
    outcome.error += plain;
    return EncodePlainly(matrix, importance_, options_.jobs);
  }
  ++outcome.accepted;
  outcome.error += error;
  // The held-out part has served its purpose, and more tokens give better moments.
  const std::vector<std::vector<float>> importances = {importance_, SpreadsOf(whole)};
  return EncodeWithFeedback(matrix, whole, importances, options_.jobs);
}

}  // namespace moepack::runtime
