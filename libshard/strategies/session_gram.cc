#include "libshard/strategies/session_gram.h"

#include <algorithm>
#include <cmath>

#include "libshard/base/parallel.h"

namespace moepack {
namespace {

// How many places the inner loop handles at once, so that compilers vectorize it, and how many of
// them and of the sessions stay in the cache.
constexpr size_t kStride = 64;
constexpr size_t kStretch = 64 * kStride;
constexpr size_t kTile = 16;

// The vectors of all sessions, each padded with zeros to a multiple of kStride.
struct Rows {
  size_t width = 0;
  std::vector<int16_t> values;
  const int16_t* at(size_t session) const { return values.data() + session * width; }
};

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
  Rows rows;
  rows.width = (shares.width() + kStride - 1) / kStride * kStride;
  rows.values.resize(rows.width * shares.session_count());
  const auto write = [&](size_t session) -> Status {
    WriteRow(shares, mean, session, rows.values.data() + session * rows.width);
    return CheckInterrupt();
  };
  SHARD_CHECK(ParallelFor(shares.session_count(), 0, write));
  return rows;
}

int32_t Product(const int16_t* a, const int16_t* b, size_t width) {
  int32_t sum = 0;
  for (size_t i = 0; i < width; i += kStride) {
    for (size_t j = 0; j < kStride; ++j)
      sum += static_cast<int32_t>(a[i + j]) * static_cast<int32_t>(b[i + j]);
  }
  return sum;
}

}  // namespace

Result<SessionGram> SessionGram::Of(const SessionShares& shares) {
  SHARD_TRY(const Rows rows, RowsOf(shares));
  SessionGram gram;
  const size_t size = gram.size_ = shares.session_count();
  gram.products_.resize(size * size);
  const auto multiply = [&](size_t tile) -> Status {
    const size_t first = tile * kTile, end = std::min(size, first + kTile);
    for (size_t other = 0; other < end; other += kTile) {
      for (size_t start = 0; start < rows.width; start += kStretch) {
        const size_t stretch = std::min(kStretch, rows.width - start);
        for (size_t a = first; a < end; ++a) {
          for (size_t b = other; b < std::min(a + 1, other + kTile); ++b)
            gram.products_[a * size + b] +=
                Product(rows.at(a) + start, rows.at(b) + start, stretch);
        }
      }
    }
    return CheckInterrupt();
  };
  SHARD_CHECK(ParallelFor((size + kTile - 1) / kTile, 0, multiply));
  // Only one triangle was multiplied.
  for (size_t a = 0; a < size; ++a) {
    for (size_t b = 0; b < a; ++b) gram.products_[b * size + a] = gram.products_[a * size + b];
  }
  return gram;
}

}  // namespace moepack
