#include "runtime-shim/calibrate/encode_matrix.h"

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

InputMoments Shrunk(InputMoments moments, const Shrinking& shrinking) {
  if (shrinking.amount == 0) return moments;
  const InputMoments* const layer = shrinking.towards;
  const auto wide = static_cast<double>(moments.columns) * shrinking.amount;
  const double u = wide / (static_cast<double>(moments.tokens) + wide);
  const double scale = layer == nullptr ? 0 : moments.trace() / layer->trace();
  const size_t n = moments.columns;
  for (size_t i = 0; i < n * n; ++i) {
    const bool diagonal = i / n == i % n;
    double& own = moments.own[i];
    double& drift = moments.drift[i];
    if (layer == nullptr) {
      if (!diagonal) own *= 1 - u;
      drift *= 1 - u;
    } else {
      own = (1 - u) * own + u * scale * layer->own[i];
      drift = (1 - u) * drift + u * scale * layer->drift[i];
    }
  }
  return moments;
}

}  // namespace

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

MatrixEncoder::MatrixEncoder(MomentPair moments, const Shrinking& shrinking,
                             const CalibrateOptions& options)
    : moments_(std::move(moments)), options_(options) {
  all_ = moments_.fit;
  all_.Add(moments_.fold);
  if (moments_.fit.tokens < options.least_tokens) return;
  const auto factor = [&](const InputMoments& of) {
    return FeedbackFactor::Of(Shrunk(of, shrinking), kFeedbackDamping, options.jobs);
  };
  fit_ = factor(moments_.fit);
  if (fit_) whole_ = factor(all_);
}

std::vector<std::byte> MatrixEncoder::Encode(const FeedbackMatrix& matrix,
                                             CalibratedLayer& outcome) const {
  ++outcome.matrices;
  const std::vector<float> diagonal = all_.tokens > 0 ? all_.diagonal() : std::vector<float>();
  std::vector<std::byte> plain = EncodePlainly(matrix, diagonal, options_.jobs);
  if (!fit_ || !whole_) {
    ++outcome.few_tokens;
    return plain;
  }
  const double plain_error = ProductError(matrix, plain, moments_.fold, options_.jobs);
  outcome.error_plain += plain_error;
  std::vector<std::vector<float>> importances = {moments_.fit.diagonal(), SpreadsOf(*fit_)};
  const std::vector<std::byte> tried =
      EncodeWithFeedback(matrix, *fit_, importances, options_.jobs);
  const double error = ProductError(matrix, tried, moments_.fold, options_.jobs);
  if (!(error < plain_error)) {
    ++outcome.worse;
    outcome.error += plain_error;
    return plain;
  }
  ++outcome.accepted;
  outcome.error += error;
  // The held-out part has served its purpose, and more tokens give better moments.
  importances = {diagonal, SpreadsOf(*whole_)};
  return EncodeWithFeedback(matrix, *whole_, importances, options_.jobs);
}

}  // namespace moepack::runtime
