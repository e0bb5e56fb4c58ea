#include "runtime-shim/vulkan/vulkan_executor.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "libshard/base/text/text.h"
#include "runtime-shim/vulkan/vulkan.h"

namespace moepack::runtime {

// Chooses a device and starts on it.

const char* const kVulkanMissing = nullptr;

Result<std::unique_ptr<Executor>> OpenVulkan(const ExecutorOptions& options) {
  SHARD_TRY(auto executor, vulkan::VulkanExecutor::Open(options));
  return std::unique_ptr<Executor>(std::move(executor));
}

std::string VulkanDevices() {
  const auto instance = vulkan::Instance::Create(false);
  if (!instance) return {};
  const auto devices = (*instance)->Devices();
  if (!devices) return {};
  std::string lines;
  for (size_t i = 0; i < devices->size(); ++i)
    lines += Cat(i, ": ", vulkan::DescriptionOf((*devices)[i]), "\n");
  return lines;
}

namespace vulkan {

Result<std::unique_ptr<VulkanExecutor>> VulkanExecutor::Open(const ExecutorOptions& options) {
  std::unique_ptr<VulkanExecutor> executor(new VulkanExecutor);
  SHARD_CHECK(executor->Start(options));
  return executor;
}

Status VulkanExecutor::Start(const ExecutorOptions& options) {
  SHARD_TRY(core_.instance, Instance::Create(options.validation));
  SHARD_TRY(const std::vector<VkPhysicalDevice> devices, core_.instance->Devices());
  if (options.device >= devices.size()) {
    return Error{Code::kUnavailable,
                 Cat("vulkan: expected one of ", Plural(devices.size(), "device"),
                     " (0: the first), found ", options.device),
                 "list them with `moepack run --list-devices`"};
  }
  SHARD_TRY(core_.device, Device::Create(devices[options.device]));
  SHARD_TRY(core_.pipelines, Pipelines::Create(*core_.device));
  SHARD_TRY(core_.recorder, Recorder::Create(*core_.device, core_.pipelines->set_layout()));
  return Ok();
}

// Memory of the device, and transfers into and out of it: through staging memory, piece by piece.

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

Result<BufferPtr> VulkanExecutor::Load(const TensorBytes& bytes) {
  SHARD_TRY(std::unique_ptr<DeviceBuffer> buffer, NewBuffer(bytes.size()));
  uint64_t offset = 0;
  for (const ByteView view : bytes.views()) {
    SHARD_CHECK(Upload(view, offset, *buffer));
    offset += view.size();
  }
  return BufferPtr(std::move(buffer));
}

Status VulkanExecutor::Upload(ByteView bytes, uint64_t offset, const DeviceBuffer& to) {
  for (uint64_t first = 0; first < bytes.size(); first += kPieceBytes) {
    const uint64_t count = std::min(kPieceBytes, bytes.size() - first);
    SHARD_CHECK(core_.recorder->Reserve(count));
    const Staged staged = core_.recorder->Stage(count);
    std::memcpy(staged.bytes, bytes.data() + first, count);
    const VkBufferCopy region{staged.offset, offset + first, count};
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

}  // namespace vulkan
}  // namespace moepack::runtime
