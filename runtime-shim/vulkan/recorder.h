// Commands on their way to the device, and host memory for the data they take along. Two frames
// take turns: while the device works on one, the other is recorded.
#pragma once

#include <volk.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "libshard/base/result.h"
#include "runtime-shim/vulkan/device.h"

namespace moepack::runtime::vulkan {

// The staging memory of one frame; larger copies are split into pieces.
inline constexpr uint64_t kStagingBytes = uint64_t{8} << 20;

// Host memory that the device sees.
struct Staged {
  VkBuffer buffer = VK_NULL_HANDLE;
  uint64_t offset = 0;
  std::byte* bytes = nullptr;
};

class Recorder {
 public:
  static Result<std::unique_ptr<Recorder>> Create(Device& device, VkDescriptorSetLayout layout);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder();

  // Makes room for one operation: a descriptor set and `staged` bytes of host memory, in at most
  // four parts. May submit what was recorded before.
  Status Reserve(uint64_t staged);
  // REQUIRES for the next three: Reserve. The result of Stage belongs to the caller until the next
  // Reserve.
  Staged Stage(uint64_t bytes);
  Result<VkDescriptorSet> NewSet();
  VkCommandBuffer commands() const { return frames_[current_].commands; }
  // Commands recorded from here on see the results of earlier ones.
  void Barrier();
  void BarrierToHost();
  // Submits, and waits for everything.
  Status Finish();

 private:
  struct Frame {
    VkCommandPool pool = VK_NULL_HANDLE;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    VkDescriptorPool sets = VK_NULL_HANDLE;
    VkFence done = VK_NULL_HANDLE;
    Memory staging;
    uint64_t staged = 0;
    uint32_t operations = 0;
    bool recording = false, submitted = false;
  };

  Recorder(Device& device, VkDescriptorSetLayout layout) : device_(device), layout_(layout) {}
  Status Make(Frame& frame);
  Status Begin(Frame& frame);
  Status Submit(Frame& frame);
  Status Wait(Frame& frame);
  uint64_t Aligned(uint64_t bytes) const;
  void Barrier(VkPipelineStageFlags stages, VkAccessFlags access);

  Device& device_;
  VkDescriptorSetLayout layout_;
  std::array<Frame, 2> frames_;
  size_t current_ = 0;
};

}  // namespace moepack::runtime::vulkan
