#include "libshard/strategies/session_gram.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "libshard/base/parallel.h"

namespace moepack {
namespace {

using Eigen::Index;

// How many experts of the model one product covers, so that their doubles stay few.
constexpr Index kStretch = 1024;

// One row for each session.
using Rows = Eigen::Matrix<int16_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Result<std::vector<double>> MeanRoots(const SessionShares& shares) {
  std::vector<double> mean(shares.width());
  const auto of_layer = [&](size_t layer) -> Status {
    double* const sum = mean.data() + shares.offset(layer);
    size_t seen = 0;
    for (size_t session = 0; session < shares.session_count(); ++session) {
      const std::span<const float> scores = shares.Scores(session, layer);
      const double per_score = shares.PerScore(session, layer);
      seen += per_score > 0;
      // Square roots of shares make the product the Bhattacharyya coefficient of two distributions:
      // a few dominant experts no longer decide it alone.
      for (size_t id = 0; id < scores.size(); ++id) sum[id] += std::sqrt(scores[id] * per_score);
    }
    for (size_t id = 0; id < shares.expert_count(layer); ++id)
      sum[id] /= static_cast<double>(std::max<size_t>(seen, 1));
    return CheckInterrupt();
  };
  SHARD_CHECK(ParallelFor(shares.layer_count(), 0, of_layer));
  return mean;
}

// A layer that the session never reached says nothing about it and stays 0.
void WriteRow(const SessionShares& shares, const std::vector<double>& mean, size_t session,
              int16_t* row) {
  std::vector<double> centred(shares.width());
  double squares = 0;
  for (size_t layer = 0; layer < shares.layer_count(); ++layer) {
    const double per_score = shares.PerScore(session, layer);
    if (per_score == 0) continue;
    const std::span<const float> scores = shares.Scores(session, layer);
    const size_t offset = shares.offset(layer);
    for (size_t id = 0; id < scores.size(); ++id) {
      // What all sessions have in common would make every pair look alike.
      const double value = std::sqrt(scores[id] * per_score) - mean[offset + id];
      centred[offset + id] = value;
      squares += value * value;
    }
  }
  if (squares < 1e-12) return;  // only rounding is left of a session that equals the mean
  const double scale = kGramUnit / std::sqrt(squares);
  for (size_t i = 0; i < centred.size(); ++i) {
    const double value = centred[i] * scale;
    // Half away from zero without a library call, whose rounding mode could differ.
    row[i] = static_cast<int16_t>(value + (value < 0 ? -0.5 : 0.5));
  }
}

Result<Rows> RowsOf(const SessionShares& shares) {
  SHARD_TRY(const std::vector<double> mean, MeanRoots(shares));
  Rows rows = Rows::Zero(Index(shares.session_count()), Index(shares.width()));
  const auto write = [&](size_t session) -> Status {
    WriteRow(shares, mean, session, rows.row(Index(session)).data());
    return CheckInterrupt();
  };
  SHARD_CHECK(ParallelFor(shares.session_count(), 0, write));
  return rows;
}

}  // namespace

Result<SessionGram> SessionGram::Of(const SessionShares& shares) {
  SHARD_TRY(const Rows rows, RowsOf(shares));
  // Doubles hold the sums exactly: 2^18 products (limits.h) of int16 are below 2^53.
  Eigen::MatrixXd sums = Eigen::MatrixXd::Zero(rows.rows(), rows.rows());
  for (Index start = 0; start < rows.cols(); start += kStretch) {
    const Index width = std::min(kStretch, rows.cols() - start);
    const Eigen::MatrixXd part = rows.middleCols(start, width).cast<double>();
    sums.selfadjointView<Eigen::Lower>().rankUpdate(part);
    SHARD_CHECK(CheckInterrupt());
  }
  SessionGram gram;
  gram.size_ = shares.session_count();
  gram.products_.resize(gram.size_ * gram.size_);
  Eigen::Map<Eigen::Matrix<int32_t, Eigen::Dynamic, Eigen::Dynamic>>(gram.products_.data(),
                                                                     rows.rows(), rows.rows()) =
      sums.selfadjointView<Eigen::Lower>().toDenseMatrix().cast<int32_t>();
  return gram;
}

}  // namespace moepack
