#include "runtime-shim/reference/host_executor.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <utility>

#include "libshard/base/text/text.h"

namespace moepack::runtime {
namespace {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

// Rows of activations begin at whole cache lines, so that vectors of their values do not cross any.
constexpr uint64_t kAlignment = 64;

std::byte* Aligned(std::byte* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  return memory + (kAlignment - address % kAlignment) % kAlignment;
}

class HostBuffer final : public Buffer {
 public:
  // `memory` has kAlignment bytes more than requested.
  HostBuffer(std::unique_ptr<std::byte, Free> memory, uint64_t bytes)
      : Buffer(bytes),
        owned_(std::move(memory)),
        writable_(Aligned(owned_.get())),
        contents_(ByteView(writable_, bytes)) {}
  explicit HostBuffer(const TensorBytes& borrowed) : Buffer(borrowed.size()), contents_(borrowed) {}

  const TensorBytes& contents() const { return contents_; }
  // Null for weights, which nobody writes to.
  std::byte* writable() const { return writable_; }

 private:
  std::unique_ptr<std::byte, Free> owned_;
  std::byte* writable_ = nullptr;
  TensorBytes contents_;
};

Error OutOfMemory(uint64_t bytes) {
  return {Code::kUnavailable,
          Cat("memory: expected ", FormatBytes(bytes), " (", bytes,
              " bytes) for activations and caches, found less"),
          "Use a shorter context or a smaller batch."};
}

}  // namespace

bool HostExecutor::Supports(const quant::Format* format) const {
  return format != nullptr && format->decode != nullptr;
}

Result<BufferPtr> HostExecutor::Allocate(uint64_t bytes) {
  // More than half the address space is not a valid size: allocators count with signed differences.
  if (bytes > static_cast<uint64_t>(std::numeric_limits<ptrdiff_t>::max()) - kAlignment)
    return OutOfMemory(bytes);
  std::unique_ptr<std::byte, Free> memory(
      static_cast<std::byte*>(std::calloc(bytes + kAlignment, 1)));
  if (memory == nullptr) return OutOfMemory(bytes);
  return BufferPtr(std::make_unique<HostBuffer>(std::move(memory), bytes));
}

Result<BufferPtr> HostExecutor::Load(const TensorBytes& bytes) {
  return BufferPtr(std::make_unique<HostBuffer>(bytes));
}

void HostExecutor::Write(std::span<const float> values, const Rows& to) {
  for (uint32_t t = 0; t < to.count; ++t) {
    const auto row = values.subspan(size_t{t} * to.width, to.width);
    std::copy(row.begin(), row.end(), RowOf(to, t).begin());
  }
}

Status HostExecutor::Read(const Rows& from, std::span<float> values) {
  for (uint32_t t = 0; t < from.count; ++t) {
    const auto row = RowOf(from, t);
    std::copy(row.begin(), row.end(), values.begin() + static_cast<ptrdiff_t>(t) * from.width);
  }
  return Ok();
}

std::span<float> RowOf(const Rows& rows, uint32_t index) {
  std::byte* memory = static_cast<const HostBuffer*>(rows.buffer)->writable();
  return {reinterpret_cast<float*>(memory) + rows.offset + uint64_t{index} * rows.stride,
          rows.width};
}

std::span<const std::byte> BlocksOf(const Matrix& matrix, uint32_t first, uint32_t count) {
  const TensorBytes& contents = static_cast<const HostBuffer*>(matrix.buffer)->contents();
  const uint64_t row_bytes = matrix.row_bytes();
  return contents.Part(matrix.offset + first * row_bytes, count * row_bytes);
}

std::span<const float> FloatsOf(const Matrix& matrix, uint32_t first, uint32_t count,
                                std::vector<float>& scratch) {
  const auto blocks = BlocksOf(matrix, first, count);
  const size_t values = size_t{count} * matrix.columns;
  const bool aligned = reinterpret_cast<uintptr_t>(blocks.data()) % alignof(float) == 0;
  if (aligned && matrix.format == quant::FindFormat("f32"))
    return {reinterpret_cast<const float*>(blocks.data()), values};
  if (scratch.size() < values) scratch.resize(values);
  const auto floats = std::span(scratch).first(values);
  matrix.format->decode(blocks, floats);
  return floats;
}

std::span<const float> VectorOf(const Matrix& vector, std::vector<float>& scratch) {
  if (!vector) return {};
  return FloatsOf(vector, 0, 1, scratch);
}

}  // namespace moepack::runtime
