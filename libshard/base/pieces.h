// Work on pieces of rows.
#pragma once

#include <algorithm>
#include <cstddef>

#include "libshard/base/parallel.h"

namespace moepack {

// Calls work(first, end) for pieces of at most `size` of `rows` rows, on up to `jobs` threads (0:
// one per core). Where a piece ends does not depend on `jobs`. Returns the error of the first piece
// that has one. Throws what `work` and threads throw.
template <class Work>
Status TryPieces(size_t rows, size_t size, size_t jobs, const Work& work) {
  const size_t pieces = (rows + size - 1) / size;
  return ParallelFor(pieces, jobs, [&](size_t piece) -> Status {
    return work(piece * size, std::min((piece + 1) * size, rows));
  });
}

// The same for work that has no errors.
template <class Work>
void ForPieces(size_t rows, size_t size, size_t jobs, const Work& work) {
  const Status done = TryPieces(rows, size, jobs, [&](size_t first, size_t end) -> Status {
    work(first, end);
    return Ok();
  });
  static_cast<void>(done);
}

// How many rows of this many values are enough work for starting a thread.
inline size_t RowsWorthAThread(size_t columns) {
  constexpr size_t kValues = 1 << 16;
  return std::max<size_t>(1, kValues / columns);
}

}  // namespace moepack
