#include "runtime-shim/cuda/memory.h"

#include <algorithm>
#include <cstring>

#include "libshard/base/bytes.h"
#include "libshard/base/text/text.h"
#include "runtime-shim/cuda/device.h"

namespace moepack::runtime::cuda {

Error DeviceError(const std::string& thing, cudaError_t error) {
  return {Code::kUnavailable, Cat("cuda: ", thing, ": ", cudaGetErrorString(error))};
}

Status Checked(const std::string& thing, cudaError_t error) {
  if (error == cudaSuccess) return Ok();
  cudaGetLastError();
  return DeviceError(thing, error);
}

Result<std::unique_ptr<DeviceBuffer>> DeviceBuffer::Make(int device, uint64_t bytes) {
  const auto padded = CheckedAdd(bytes, kPadding);
  void* data = nullptr;
  const cudaError_t error = padded ? cudaMalloc(&data, *padded) : cudaErrorMemoryAllocation;
  if (error == cudaSuccess) {
    return std::unique_ptr<DeviceBuffer>(
        new DeviceBuffer(device, bytes, static_cast<uint8_t*>(data)));
  }
  cudaGetLastError();
  if (error != cudaErrorMemoryAllocation) return DeviceError("allocation", error);
  size_t free = 0, total = 0;
  SHARD_CHECK(Checked("memory", cudaMemGetInfo(&free, &total)));
  return Error{Code::kUnavailable, Cat("cuda: device ", device, ": expected ", bytes,
                                       " bytes of memory, found ", free, " of ", total, " free")};
}

DeviceBuffer::~DeviceBuffer() {
  cudaSetDevice(device_);
  cudaFree(data_);
}

Result<std::unique_ptr<Upload>> Upload::Make(cudaStream_t stream) {
  std::unique_ptr<Upload> upload(new Upload(stream));
  for (Slot& slot : upload->slots_) {
    void* memory = nullptr;
    SHARD_CHECK(Checked("pinned memory", cudaMallocHost(&memory, kSlotBytes)));
    slot.memory = static_cast<std::byte*>(memory);
    SHARD_CHECK(Checked("event", cudaEventCreateWithFlags(&slot.read, cudaEventDisableTiming)));
  }
  return upload;
}

Upload::~Upload() {
  for (const Slot& slot : slots_) {
    if (slot.read != nullptr) cudaEventDestroy(slot.read);
    cudaFreeHost(slot.memory);
  }
}

cudaError_t Upload::NextSlot() {
  if (const auto error = cudaEventRecord(slots_[slot_].read, stream_)) return error;
  slot_ = (slot_ + 1) % kSlots;
  used_ = 0;
  return cudaEventSynchronize(slots_[slot_].read);
}

cudaError_t Upload::Copy(std::span<const std::byte> from, uint8_t* to) {
  while (!from.empty()) {
    if (used_ == kSlotBytes) {
      if (const auto error = NextSlot()) return error;
    }
    const size_t bytes = std::min(from.size(), kSlotBytes - used_);
    std::byte* const staged = slots_[slot_].memory + used_;
    std::memcpy(staged, from.data(), bytes);
    if (const auto error = cudaMemcpyAsync(to, staged, bytes, cudaMemcpyHostToDevice, stream_))
      return error;
    used_ += bytes;
    from = from.subspan(bytes);
    to += bytes;
  }
  return cudaSuccess;
}

}  // namespace moepack::runtime::cuda
