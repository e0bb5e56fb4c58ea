#include "runtime-shim/calibrate/moments.h"

#include <algorithm>
#include <functional>

namespace moepack::runtime {

double InputMoments::trace() const {
  double sum = 0;
  for (size_t i = 0; i < columns; ++i) sum += own[i * columns + i];
  return sum;
}

std::vector<float> InputMoments::diagonal() const {
  std::vector<float> out(columns);
  for (size_t i = 0; i < columns; ++i) out[i] = static_cast<float>(own[i * columns + i]);
  return out;
}

void InputMoments::Add(const InputMoments& other) {
  if (other.columns == 0) return;
  columns = other.columns;
  const auto add = [](const std::vector<double>& from, std::vector<double>& to) {
    if (from.empty()) return;
    to.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i) to[i] += from[i];
  };
  add(other.own, own);
  add(other.drift, drift);
  tokens += other.tokens;
}

size_t MomentSums::RowsHeld(const Products& products, size_t columns) {
  if (products.algebra() == nullptr) return kTokensOfSum;
  return std::max<size_t>(1, 2 * columns / kTokensOfSum) * kTokensOfSum;
}

MomentSums::MomentSums(size_t columns, bool drift, Products& products)
    : columns_(columns),
      most_rows_(RowsHeld(products, columns)),
      drift_(drift),
      products_(products) {
  sums_.columns = columns;
  sums_.own.resize(columns * columns);
  if (drift) sums_.drift.resize(columns * columns);
}

Status MomentSums::Add(std::span<const float> rows, std::span<const float> full) {
  const size_t count = rows.size() / columns_;
  for (size_t first = 0; first < count;) {
    const size_t held = rows_.size() / columns_;
    const size_t some = std::min(count - first, most_rows_ - held);
    const auto own = rows.subspan(first * columns_, some * columns_);
    rows_.insert(rows_.end(), own.begin(), own.end());
    if (drift_) {
      const auto whole = full.subspan(first * columns_, some * columns_);
      drift_rows_.resize(rows_.size());
      std::transform(whole.begin(), whole.end(), own.begin(), drift_rows_.end() - own.size(),
                     std::minus<float>());
    }
    if (held + some == most_rows_) SHARD_CHECK(Multiply());
    first += some;
  }
  sums_.tokens += count;
  return Ok();
}

Status MomentSums::Multiply() {
  const FloatTable rows{rows_, columns_};
  // What is below the diagonal follows by symmetry.
  SHARD_CHECK(products_.AddSquare(rows, {sums_.own.data(), columns_}));
  if (drift_)
    SHARD_CHECK(
        products_.AddProduct({drift_rows_, columns_}, rows, {sums_.drift.data(), columns_}));
  rows_.clear();
  drift_rows_.clear();
  return Ok();
}

Result<InputMoments> MomentSums::Finish() {
  SHARD_CHECK(Multiply());
  rows_ = {};
  drift_rows_ = {};
  for (size_t row = 0; row < columns_; ++row) {
    for (size_t column = 0; column < row; ++column)
      sums_.own[row * columns_ + column] = sums_.own[column * columns_ + row];
  }
  return std::move(sums_);
}

}  // namespace moepack::runtime
