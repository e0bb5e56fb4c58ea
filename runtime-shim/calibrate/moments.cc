#include "runtime-shim/calibrate/moments.h"

#include <algorithm>

#include "libshard/base/parallel.h"
#include "runtime-shim/cpu/panels.h"
#include "runtime-shim/cpu/turn_rows.h"

namespace moepack::runtime {
namespace {

constexpr size_t kRowsHeld = 256;    // that are multiplied at once
constexpr size_t kRowsOfSum = 2048;  // that are added up in floats
constexpr size_t kRowsOfFlush = 64;

size_t Padded(size_t columns) {
  return (columns + kPanelColumns - 1) / kPanelColumns * kPanelColumns;
}

void AddUp(const float* from, size_t count, double* to) {
  for (size_t i = 0; i < count; ++i) to[i] += from[i];
}

}  // namespace

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

MomentSums::MomentSums(size_t columns, bool drift, size_t jobs)
    : columns_(columns), padded_(Padded(columns)), jobs_(jobs), drift_(drift) {
  sums_.columns = columns;
  sums_.own.resize(columns * columns);
  rows_.resize(kRowsHeld * padded_);
  turned_.resize(padded_ * kRowsHeld);
  own_.resize(padded_ * padded_);
  if (!drift) return;
  sums_.drift.resize(columns * columns);
  drift_rows_.resize(kRowsHeld * padded_);
  drifts_.resize(padded_ * kRowsHeld);
  drift_sums_.resize(padded_ * padded_);
}

void MomentSums::Add(std::span<const float> rows, std::span<const float> full) {
  const size_t count = rows.size() / columns_;
  for (size_t row = 0; row < count; ++row) {
    const float* const from = rows.data() + row * columns_;
    std::copy_n(from, columns_, rows_.data() + held_ * padded_);
    if (drift_) {
      const float* const whole = full.data() + row * columns_;
      float* const to = drift_rows_.data() + held_ * padded_;
      for (size_t c = 0; c < columns_; ++c) to[c] = whole[c] - from[c];
    }
    if (++held_ == kRowsHeld) Multiply();
  }
  sums_.tokens += count;
}

// Rows [kRowsHeld, padded] as columns.
void MomentSums::Turn(const std::vector<float>& rows, std::vector<float>& turned) const {
  ForPieces(padded_, kPanelColumns, jobs_, [&](size_t left, size_t right) {
    TurnRows({rows.data() + left, held_, right - left, padded_}, turned.data() + left * kRowsHeld,
             kRowsHeld);
  });
}

void MomentSums::Multiply() {
  if (held_ == 0) return;
  Turn(rows_, turned_);
  if (drift_) Turn(drift_rows_, drifts_);
  ForPieces(padded_ / kPanelColumns, 1, jobs_, [&](size_t tile, size_t) {
    const size_t first = tile * kPanelColumns;
    // Together, because rows that are a power of two apart would share few places in the cache.
    std::vector<float> columns(held_ * kPanelColumns);
    for (size_t row = 0; row < held_; ++row)
      std::copy_n(rows_.data() + row * padded_ + first, kPanelColumns,
                  columns.data() + row * kPanelColumns);
    const ConstPanel panel{columns.data()};
    const size_t at = tile * padded_ * kPanelColumns;
    // The rest follows by symmetry.
    AddPanelProducts({turned_.data(), kRowsHeld, first + kPanelColumns, held_}, panel,
                     {own_.data() + at});
    if (drift_)
      AddPanelProducts({drifts_.data(), kRowsHeld, padded_, held_}, panel,
                       {drift_sums_.data() + at});
  });
  unflushed_ += held_;
  held_ = 0;
  if (unflushed_ >= kRowsOfSum) Flush();
}

void MomentSums::Flush() {
  unflushed_ = 0;
  ForPieces(columns_, kRowsOfFlush, jobs_, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      for (size_t first = 0; first < columns_; first += kPanelColumns) {
        const size_t count = std::min(kPanelColumns, columns_ - first);
        const size_t from = first * padded_ + row * kPanelColumns, to = row * columns_ + first;
        // Below the diagonal Finish sets what follows by symmetry.
        if (first + kPanelColumns > row) AddUp(own_.data() + from, count, sums_.own.data() + to);
        if (drift_) AddUp(drift_sums_.data() + from, count, sums_.drift.data() + to);
      }
    }
  });
  std::fill(own_.begin(), own_.end(), 0.0f);
  std::fill(drift_sums_.begin(), drift_sums_.end(), 0.0f);
}

InputMoments MomentSums::Finish() {
  Multiply();
  Flush();
  for (size_t row = 0; row < columns_; ++row) {
    for (size_t column = 0; column < row; ++column)
      sums_.own[row * columns_ + column] = sums_.own[column * columns_ + row];
  }
  return std::move(sums_);
}

}  // namespace moepack::runtime
