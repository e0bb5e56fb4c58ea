// What an executor and its buffers share.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "runtime-shim/executor/shapes.h"
#include "runtime-shim/vulkan/device.h"
#include "runtime-shim/vulkan/pipelines.h"
#include "runtime-shim/vulkan/recorder.h"
#include "runtime-shim/vulkan/status.h"

namespace moepack::runtime::vulkan {

// Appended to every buffer: shaders read weights in words of 4 bytes and may read four of them past
// the end.
inline constexpr uint64_t kPaddingBytes = 16;

struct Core {
  std::unique_ptr<Instance> instance;
  std::unique_ptr<Device> device;
  std::unique_ptr<Pipelines> pipelines;
  std::unique_ptr<Recorder> recorder;
  Fault fault;
};

class DeviceBuffer : public Buffer {
 public:
  DeviceBuffer(Core& core, uint64_t bytes, Memory memory)
      : Buffer(bytes), core_(core), memory_(std::move(memory)) {}
  // Commands that use it may still be in flight.
  ~DeviceBuffer() override { core_.fault.Passed(core_.recorder->Finish()); }
  const Memory& memory() const { return memory_; }

 private:
  Core& core_;
  Memory memory_;
};

}  // namespace moepack::runtime::vulkan
