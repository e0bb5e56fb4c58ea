// Desk: rows and weights for one operation, the same ones on every executor.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <list>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "runtime-shim/executor/executor.h"

namespace moepack::runtime {

// `count` rows of `width` values with `gap` values between them, after `offset` others.
struct Layout {
  uint32_t count = 1, width = 1, gap = 0;
  uint64_t offset = 0;
};

// The contents of a buffer after an operation: the rows it had to write, and everything around
// them.
struct Outcome {
  std::vector<float> values, around;
};

class Desk {
 public:
  explicit Desk(Executor& executor) : executor_(executor) {}
  Desk(const Desk&) = delete;
  Desk& operator=(const Desk&) = delete;

  Executor& executor() { return executor_; }

  // Rows of normally distributed values, in a separate buffer whose gaps hold such values too.
  Rows Random(const Layout& layout, float deviation = 1) {
    const uint32_t stride = layout.width + layout.gap;
    const uint64_t total = layout.offset + uint64_t{layout.count} * stride + 5;
    auto buffer = executor_.Allocate(total * sizeof(float));
    EXPECT_TRUE(buffer.has_value());
    buffers_.push_back(std::move(*buffer));
    executor_.Write(Normal(total, deviation), Whole(buffers_.back().get()));
    return {buffers_.back().get(), layout.offset, layout.count, layout.width, stride};
  }

  // Overwrites one value.
  void Plant(const Rows& rows, uint32_t row, uint32_t column, float value) {
    executor_.Write(std::span(&value, 1), rows.Slice(row, 1).Columns(column, 1));
  }

  // An encoded matrix of random values after 32 other bytes and three other rows, like an expert in
  // a file.
  Matrix Weights(const quant::Format& format, uint32_t rows, uint32_t columns) {
    const uint64_t row_bytes = *format.BytesFor(columns);
    std::vector<std::byte>& bytes = bytes_.emplace_back(32 + (rows + 3) * row_bytes);
    Encode(format, std::span(bytes).subspan(32));
    auto buffer = executor_.Load(bytes);
    EXPECT_TRUE(buffer.has_value());
    buffers_.push_back(std::move(*buffer));
    return {buffers_.back().get(), 32 + 3 * row_bytes, &format, rows, columns};
  }

  // One row of F32.
  Matrix Vector(uint32_t values) { return Weights(*quant::FindFormat("f32"), 1, values); }

  std::vector<float> Normal(size_t count, float deviation = 1) {
    std::normal_distribution<float> normal(0, deviation);
    std::vector<float> values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }

  // Everything in the buffer of `rows`.
  Outcome Take(const Rows& rows) {
    const Rows whole = Whole(rows.buffer);
    std::vector<float> all(whole.width);
    const auto status = executor_.Read(whole, all);
    EXPECT_TRUE(status.has_value()) << status.error().message;
    Outcome outcome;
    for (uint64_t i = 0; i < all.size(); ++i) {
      const bool inside = i >= rows.offset && (i - rows.offset) / rows.stride < rows.count &&
                          (i - rows.offset) % rows.stride < rows.width;
      (inside ? outcome.values : outcome.around).push_back(all[i]);
    }
    return outcome;
  }

 private:
  static Rows Whole(Buffer* buffer) {
    const auto values = static_cast<uint32_t>(buffer->bytes() / sizeof(float));
    return {buffer, 0, 1, values, values};
  }

  // About ten thousand values are encoded and repeated, because types with a search encode slowly.
  // A prime number of blocks, so that neighbouring rows differ.
  void Encode(const quant::Format& format, std::span<std::byte> out) {
    const size_t blocks = format.block_values < 32 ? 16411 : format.block_values < 256 ? 509 : 61;
    const size_t repeated = std::min(out.size(), blocks * format.block_bytes);
    EncodeOnce(format, out.first(repeated));
    for (size_t i = repeated; i < out.size(); ++i) out[i] = out[i - repeated];
  }

  void EncodeOnce(const quant::Format& format, std::span<std::byte> out) {
    const size_t values = out.size() / format.block_bytes * format.block_values;
    if (format.encode != nullptr) return format.encode(Normal(values, 0.5f), {}, out);
    // FP8 can only be read: arbitrary bytes that give numbers of ordinary size.
    for (std::byte& byte : out) {
      float value = 0;
      do {
        byte = static_cast<std::byte>(random_() & 0xff);
        format.decode(std::span(&byte, 1), std::span(&value, 1));
      } while (!(std::abs(value) <= 4));
    }
  }

  Executor& executor_;
  std::mt19937 random_{7};
  std::list<std::vector<std::byte>> bytes_;  // borrowed by buffers_
  std::list<BufferPtr> buffers_;
};

}  // namespace moepack::runtime
