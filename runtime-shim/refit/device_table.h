// Memory of an executor for rows that are made again and again: it grows as needed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libshard/base/result.h"
#include "runtime-shim/executor/dense_algebra.h"
#include "runtime-shim/executor/executor.h"

namespace moepack::runtime {

// What was taken last is no longer valid.
class DeviceTable {
 public:
  Result<Rows> Take(Executor& executor, size_t count, size_t width);
  Result<Doubles> TakeDoubles(Executor& executor, size_t count, size_t width);

 private:
  Status Grow(Executor& executor, uint64_t bytes);
  BufferPtr buffer_;
};

}  // namespace moepack::runtime
