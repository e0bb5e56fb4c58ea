// Work without errors on pieces of rows.
#pragma once

#include <algorithm>
#include <cstddef>

#include "libshard/base/parallel.h"

namespace moepack::runtime {

// Calls work(first, end) for pieces of at most `size` of `rows` rows, on up to `jobs` threads (0:
// one per core). Where a piece ends does not depend on `jobs`. Throws what `work` and threads
// throw.
template <class Work>
void ForPieces(size_t rows, size_t size, size_t jobs, const Work& work) {
  const size_t pieces = (rows + size - 1) / size;
  const Status done = ParallelFor(pieces, jobs, [&](size_t piece) -> Status {
    work(piece * size, std::min((piece + 1) * size, rows));
    return Ok();
  });
  static_cast<void>(done);  // the work has no errors
}

}  // namespace moepack::runtime
