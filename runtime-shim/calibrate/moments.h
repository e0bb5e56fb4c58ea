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
  // this += factor * other, with the tokens; `other` may be empty. REQUIRES: the same columns.
  void Add(const InputMoments& other, double factor = 1);
};

// Adds up moments row by row. The sums depend on how rows are divided into calls only by rounding
// of floats within kTokensOfMoments rows, and not on the number of threads.
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

}  // namespace moepack::runtime
