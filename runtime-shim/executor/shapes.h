// What executors work on: memory, rows of F32, matrices of weights, and the shapes of operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "libshard/graph/shapes.h"
#include "quant/format.h"

namespace moepack::runtime {

// Memory of an executor. The destructor frees it, and must run before the executor's.
class Buffer {
 public:
  explicit Buffer(uint64_t bytes) : bytes_(bytes) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  virtual ~Buffer() = default;
  uint64_t bytes() const { return bytes_; }

 private:
  uint64_t bytes_;
};
using BufferPtr = std::unique_ptr<Buffer>;

// `count` rows of `width` F32 values in a buffer; row i starts at value offset + i * stride.
// Borrows the buffer.
struct Rows {
  static constexpr uint64_t kValueBytes = sizeof(float);
  Buffer* buffer = nullptr;
  uint64_t offset = 0;
  uint32_t count = 0, width = 0, stride = 0;

  uint64_t values() const { return uint64_t{count} * width; }
  // Returns columns [first, first + columns) of every row.
  Rows Columns(uint32_t first, uint32_t columns) const {
    return {buffer, offset + first, count, columns, stride};
  }
  // Returns rows [first, first + rows).
  Rows Slice(uint32_t first, uint32_t rows) const {
    return {buffer, offset + uint64_t{first} * stride, rows, width, stride};
  }
};

// A matrix of weights [rows, columns], row after row, in blocks of `format`; its first byte is byte
// `offset` of the buffer. Borrows the buffer. A vector (norm, bias) is one row of F32.
struct Matrix {
  const Buffer* buffer = nullptr;
  uint64_t offset = 0;  // bytes
  const quant::Format* format = nullptr;
  uint32_t rows = 0, columns = 0;

  explicit operator bool() const { return buffer != nullptr; }
  // The bytes of one row.
  uint64_t row_bytes() const { return *format->BytesFor(columns); }
  // Returns rows [first, first + count).
  Matrix Slice(uint32_t first, uint32_t count) const {
    return {buffer, offset + first * row_bytes(), format, count, columns};
  }
};

// Rotary embedding of rows with `heads` heads of `head_width` values: values [first, first + dims)
// of each head are rotated.
struct Rotation {
  uint32_t heads = 0, head_width = 0, first = 0, dims = 0;
  Pairing pairing = Pairing::kHalves;
};

// Attention of `queries.count` tokens at positions past, past + 1, ... over the cache, whose row j
// belongs to position j. Query head h uses key head h / (heads / key_heads). A token at position p
// sees position j when j <= p and (window == 0 or p - j < window) and (chunk == 0 or
// j / chunk == p / chunk).
struct AttentionShape {
  uint32_t heads = 0, key_heads = 0;
  uint32_t key_width = 0, value_width = 0;  // of one head
  uint32_t past = 0;
  uint32_t window = 0, chunk = 0;
  float scale = 1;  // multiplies the products of queries and keys
};

}  // namespace moepack::runtime
