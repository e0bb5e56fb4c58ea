// Second moments of a matrix's inputs on calibration text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moepack::runtime {

// For inputs x of n columns in the encoded model, and x_full of the same tokens in the model
// itself: sums over the tokens.
struct InputMoments {
  size_t columns = 0;         // n
  std::vector<double> own;    // x x', [n, n]; all of it, though symmetric
  std::vector<double> drift;  // (x_full - x) x', [n, n]; empty: 0
  uint64_t tokens = 0;

  double trace() const;
  // The mean of the diagonal.
  double mean() const { return columns == 0 ? 0 : trace() / static_cast<double>(columns); }
  std::vector<float> diagonal() const;
  // this += other; `other` may be empty. REQUIRES: the same columns.
  void Add(const InputMoments& other);
};

// Adds up moments row by row. The sums depend on how rows are divided into calls only by rounding
// of floats within kRowsOfSum rows (moments.cc), and not on the number of threads.
class MomentSums {
 public:
  // `jobs`: threads, 0 for one per core.
  MomentSums(size_t columns, bool drift, size_t jobs);

  // Rows of `columns` values, and those of the whole model; `full` is empty if drift is not summed.
  void Add(std::span<const float> rows, std::span<const float> full);
  InputMoments Finish();

 private:
  void Turn(const std::vector<float>& rows, std::vector<float>& turned) const;
  void Multiply();  // what is held, into the float sums
  void Flush();     // the float sums, into the doubles

  size_t columns_, padded_, jobs_;
  bool drift_;
  InputMoments sums_;
  size_t held_ = 0, unflushed_ = 0;
  std::vector<float> rows_, drift_rows_;  // that are held, [kRowsHeld, padded]
  std::vector<float> turned_, drifts_;    // the same as columns
  std::vector<float> own_, drift_sums_;   // by tile of columns: [padded, kPanelColumns]
};

// The moments of the text that is learned from, and of the text that is held out.
struct MomentPair {
  InputMoments fit, fold;
};

// Adds up both, with drift.
class MomentPairSums {
 public:
  MomentPairSums(size_t columns, size_t jobs)
      : columns_(columns), fit_(columns, true, jobs), fold_(columns, true, jobs) {}

  // Row i is of a token that is held out if held_out(i).
  template <class HeldOut>
  void Add(std::span<const float> rows, std::span<const float> full, const HeldOut& held_out) {
    const size_t count = rows.size() / columns_;
    for (size_t begin = 0; begin < count;) {
      const bool fold = held_out(begin);
      size_t end = begin + 1;
      while (end < count && held_out(end) == fold) ++end;
      const size_t at = begin * columns_, size = (end - begin) * columns_;
      (fold ? fold_ : fit_).Add(rows.subspan(at, size), full.subspan(at, size));
      begin = end;
    }
  }
  MomentPair Finish() { return {fit_.Finish(), fold_.Finish()}; }

 private:
  size_t columns_;
  MomentSums fit_, fold_;
};

}  // namespace moepack::runtime
