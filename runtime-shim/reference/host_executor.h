// Memory of executors that work where the program does: buffers are plain memory, weights are
// borrowed from the mapped file, and every operation is done when its call returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime-shim/executor/executor.h"

namespace moepack::runtime {

class HostExecutor : public Executor {
 public:
  // Unknown: weights are mapped files, which may be larger than memory.
  uint64_t available() const override { return UINT64_MAX; }
  bool Supports(const quant::Format* format) const override;
  Result<BufferPtr> Allocate(uint64_t bytes) override;  // zeroed
  Result<BufferPtr> Load(const TensorBytes& bytes) override;
  void Write(std::span<const float> values, const Rows& to) override;
  Status Read(const Rows& from, std::span<float> values) override;
  Status Finish() override { return Ok(); }
};

// Row `index`. REQUIRES: the buffer is of a HostExecutor, came from Allocate, and holds the row.
std::span<float> RowOf(const Rows& rows, uint32_t index);
// The blocks of `count` rows from `first`.
std::span<const std::byte> BlocksOf(const Matrix& matrix, uint32_t first, uint32_t count);
// Rows [first, first + count) as floats, which need not be aligned in the file: the buffer's own if
// they are aligned F32; otherwise decoded into `scratch`, which grows as needed.
std::span<const float> FloatsOf(const Matrix& matrix, uint32_t first, uint32_t count,
                                std::vector<float>& scratch);
// The single row of a norm or bias; empty if there is none.
std::span<const float> VectorOf(const Matrix& vector, std::vector<float>& scratch);

}  // namespace moepack::runtime
