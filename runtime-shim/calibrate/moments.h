// Second moments of a matrix's inputs on calibration text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/refit/products.h"

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

// Adds up moments row by row, with the products of an executor: in F32 for kTokensOfSum rows each,
// whose sums are added up in F64. How rows are divided into calls and threads affects no bit.
class MomentSums {
 public:
  // How many rows of `columns` values it holds until they are multiplied: whole runs of
  // kTokensOfSum. With dense algebra the sums come back each time, so that there are as many rows
  // as take the memory of the sums.
  static size_t RowsHeld(const Products& products, size_t columns);

  // Borrows the products.
  MomentSums(size_t columns, bool drift, Products& products);

  // Rows of `columns` values, and those of the whole model; `full` is empty if drift is not summed.
  // Errors are those of a device.
  Status Add(std::span<const float> rows, std::span<const float> full);
  Result<InputMoments> Finish();

 private:
  Status Multiply();  // what is held

  const size_t columns_, most_rows_;
  const bool drift_;
  Products& products_;
  InputMoments sums_;
  std::vector<float> rows_, drift_rows_;  // that are held, [at most most_rows_, columns_]
};

// The moments of the text that is learned from, and of the text that is held out.
struct MomentPair {
  InputMoments fit, fold;
};

// Adds up both, with drift.
class MomentPairSums {
 public:
  MomentPairSums(size_t columns, Products& products)
      : columns_(columns), fit_(columns, true, products), fold_(columns, true, products) {}

  // Row i is of a token that is held out if held_out(i).
  template <class HeldOut>
  Status Add(std::span<const float> rows, std::span<const float> full, const HeldOut& held_out) {
    const size_t count = rows.size() / columns_;
    for (size_t begin = 0; begin < count;) {
      const bool fold = held_out(begin);
      size_t end = begin + 1;
      while (end < count && held_out(end) == fold) ++end;
      const size_t at = begin * columns_, size = (end - begin) * columns_;
      MomentSums& sums = fold ? fold_ : fit_;
      SHARD_CHECK(sums.Add(rows.subspan(at, size), full.subspan(at, size)));
      begin = end;
    }
    return Ok();
  }
  Result<MomentPair> Finish() {
    MomentPair pair;
    SHARD_TRY(pair.fit, fit_.Finish());
    SHARD_TRY(pair.fold, fold_.Finish());
    return pair;
  }

 private:
  size_t columns_;
  MomentSums fit_, fold_;
};

}  // namespace moepack::runtime
