// Memory of the device, and transfers into and out of it: through staging memory, piece by piece.
#include <algorithm>
#include <cstring>
#include <vector>

#include "libshard/base/text/text.h"
#include "runtime-shim/vulkan/vulkan_executor.h"

namespace moepack::runtime::vulkan {
namespace {

// Half of a frame, so that the device copies one half while the host fills the next.
constexpr uint64_t kPieceBytes = kStagingBytes / 2;
constexpr uint64_t kPieceValues = kPieceBytes / Rows::kValueBytes;

// A part of rows, and how many values precede it.
struct Piece {
  Rows rows;
  uint64_t before;
};

// Parts of at most kPieceValues: whole rows, or columns of a row that has more on its own.
std::vector<Piece> PiecesOf(const Rows& rows) {
  std::vector<Piece> pieces;
  if (rows.width == 0) return pieces;
  const auto columns = static_cast<uint32_t>(std::min<uint64_t>(rows.width, kPieceValues));
  const auto count = static_cast<uint32_t>(std::max<uint64_t>(1, kPieceValues / rows.width));
  for (uint32_t row = 0; row < rows.count; row += std::min(count, rows.count - row)) {
    const Rows slice = rows.Slice(row, std::min(count, rows.count - row));
    for (uint32_t first = 0; first < rows.width; first += std::min(columns, rows.width - first)) {
      const Rows part = slice.Columns(first, std::min(columns, rows.width - first));
      pieces.push_back({part, uint64_t{row} * rows.width + first});
    }
  }
  return pieces;
}

// One region per row, packed on the staging side; contiguous rows are one region.
std::vector<VkBufferCopy> RegionsOf(const Rows& rows, uint64_t staged) {
  if (rows.stride == rows.width || rows.count == 1)
    return {{staged, rows.offset * Rows::kValueBytes,
             uint64_t{rows.count} * rows.width * Rows::kValueBytes}};
  std::vector<VkBufferCopy> regions(rows.count);
  for (uint64_t i = 0; i < rows.count; ++i) {
    regions[i] = {staged + i * rows.width * Rows::kValueBytes,
                  (rows.offset + i * rows.stride) * Rows::kValueBytes,
                  rows.width * Rows::kValueBytes};
  }
  return regions;
}

const Memory& MemoryOf(const Rows& rows) {
  return static_cast<const DeviceBuffer*>(rows.buffer)->memory();
}

}  // namespace

Result<std::unique_ptr<DeviceBuffer>> VulkanExecutor::NewBuffer(uint64_t bytes) {
  const uint64_t limit = core_.device->limits().allocation_bytes;
  // Create refuses sizes beyond the limit; nothing overflows before it does.
  const uint64_t padded = bytes > limit ? bytes : (bytes + 3) / 4 * 4 + kPaddingBytes;
  SHARD_TRY(Memory memory, Memory::Create(*core_.device, padded, Memory::Use::kDevice));
  return std::make_unique<DeviceBuffer>(core_, bytes, std::move(memory));
}

Result<BufferPtr> VulkanExecutor::Allocate(uint64_t bytes) {
  SHARD_TRY(std::unique_ptr<DeviceBuffer> buffer, NewBuffer(bytes));
  SHARD_CHECK(core_.recorder->Reserve(0));
  vkCmdFillBuffer(core_.recorder->commands(), buffer->memory().buffer(), 0, VK_WHOLE_SIZE, 0);
  core_.recorder->Barrier();
  return BufferPtr(std::move(buffer));
}

Result<BufferPtr> VulkanExecutor::Load(std::span<const std::byte> bytes) {
  SHARD_TRY(std::unique_ptr<DeviceBuffer> buffer, NewBuffer(bytes.size()));
  SHARD_CHECK(Upload(bytes, *buffer));
  return BufferPtr(std::move(buffer));
}

Status VulkanExecutor::Upload(std::span<const std::byte> bytes, const DeviceBuffer& to) {
  for (uint64_t first = 0; first < bytes.size(); first += kPieceBytes) {
    const uint64_t count = std::min(kPieceBytes, bytes.size() - first);
    SHARD_CHECK(core_.recorder->Reserve(count));
    const Staged staged = core_.recorder->Stage(count);
    std::memcpy(staged.bytes, bytes.data() + first, count);
    const VkBufferCopy region{staged.offset, first, count};
    vkCmdCopyBuffer(core_.recorder->commands(), staged.buffer, to.memory().buffer(), 1, &region);
  }
  if (!bytes.empty()) core_.recorder->Barrier();
  return Ok();
}

void VulkanExecutor::Write(std::span<const float> values, const Rows& to) {
  for (const Piece& piece : PiecesOf(to)) {
    if (core_.fault) return;
    const auto part = values.subspan(piece.before, piece.rows.values());
    core_.fault.Passed(WritePiece(part, piece.rows));
  }
}

Status VulkanExecutor::WritePiece(std::span<const float> values, const Rows& to) {
  SHARD_CHECK(core_.recorder->Reserve(values.size_bytes()));
  const Staged staged = core_.recorder->Stage(values.size_bytes());
  std::memcpy(staged.bytes, values.data(), values.size_bytes());
  const std::vector<VkBufferCopy> regions = RegionsOf(to, staged.offset);
  vkCmdCopyBuffer(core_.recorder->commands(), staged.buffer, MemoryOf(to).buffer(),
                  static_cast<uint32_t>(regions.size()), regions.data());
  core_.recorder->Barrier();
  return Ok();
}

Status VulkanExecutor::Read(const Rows& from, std::span<float> values) {
  for (const Piece& piece : PiecesOf(from)) {
    if (core_.fault) break;
    const auto part = values.subspan(piece.before, piece.rows.values());
    core_.fault.Passed(ReadPiece(piece.rows, part));
  }
  return TakeErrors();
}

Status VulkanExecutor::ReadPiece(const Rows& from, std::span<float> values) {
  SHARD_CHECK(core_.recorder->Reserve(values.size_bytes()));
  const Staged staged = core_.recorder->Stage(values.size_bytes());
  std::vector<VkBufferCopy> regions = RegionsOf(from, staged.offset);
  for (VkBufferCopy& region : regions) std::swap(region.srcOffset, region.dstOffset);
  vkCmdCopyBuffer(core_.recorder->commands(), MemoryOf(from).buffer(), staged.buffer,
                  static_cast<uint32_t>(regions.size()), regions.data());
  core_.recorder->BarrierToHost();
  SHARD_CHECK(core_.recorder->Finish());
  std::memcpy(values.data(), staged.bytes, values.size_bytes());
  return Ok();
}

Status VulkanExecutor::Finish() {
  core_.fault.Passed(core_.recorder->Finish());
  return TakeErrors();
}

Status VulkanExecutor::TakeErrors() {
  if (const std::string messages = core_.instance->TakeMessages(); !messages.empty()) {
    core_.fault.Set({Code::kMismatch, Cat("vulkan: validation layer: ", messages)});
  }
  return core_.fault.Take();
}

}  // namespace moepack::runtime::vulkan
