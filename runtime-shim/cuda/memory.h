// Memory of a GPU, and transfers to it from host memory.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "libshard/base/result.h"
#include "runtime-shim/executor/shapes.h"

namespace moepack::runtime::cuda {

// "cuda: <thing>: <what CUDA says>", kUnavailable.
Error DeviceError(const std::string& thing, cudaError_t error);
// The same as a Status; also clears the error that CUDA remembers.
Status Checked(const std::string& thing, cudaError_t error);

// Memory from cudaMalloc, kPadding bytes longer than bytes().
class DeviceBuffer : public Buffer {
 public:
  // kUnavailable, with the requested and the free bytes.
  static Result<std::unique_ptr<DeviceBuffer>> Make(int device, uint64_t bytes);
  ~DeviceBuffer() override;
  uint8_t* data() const { return data_; }

 private:
  DeviceBuffer(int device, uint64_t bytes, uint8_t* data)
      : Buffer(bytes), device_(device), data_(data) {}

  int device_;
  uint8_t* data_;
};

// Copies host memory to the device in the order of a stream, through a ring of pinned memory: the
// caller's memory may be reused when a copy returns, and nobody waits for the device until it is a
// whole ring behind.
class Upload {
 public:
  static Result<std::unique_ptr<Upload>> Make(cudaStream_t stream);
  ~Upload();
  cudaError_t Copy(std::span<const std::byte> from, uint8_t* to);

 private:
  static constexpr size_t kSlots = 4, kSlotBytes = 4 << 20;
  struct Slot {
    std::byte* memory = nullptr;
    cudaEvent_t read = nullptr;  // the device has read the slot's contents
  };

  explicit Upload(cudaStream_t stream) : stream_(stream) {}
  cudaError_t NextSlot();

  cudaStream_t stream_;
  std::array<Slot, kSlots> slots_;
  size_t slot_ = 0, used_ = 0;
};

}  // namespace moepack::runtime::cuda
