#include "runtime-shim/vulkan/memory.h"

#include <algorithm>
#include <utility>

#include "libshard/base/text/text.h"
#include "runtime-shim/vulkan/status.h"
#include "runtime-shim/vulkan/structure.h"

namespace moepack::runtime::vulkan {

Result<Memory> Memory::Create(Device& device, uint64_t bytes, Use use) {
  const std::string what = Cat(bytes, " bytes on ", device.description());
  // In Vulkan, asking for more is the caller's error.
  const uint64_t limit = std::min(device.limits().allocation_bytes, device.heap_bytes());
  if (bytes > limit) {
    Error error = ErrorOf(VK_ERROR_OUT_OF_DEVICE_MEMORY, what);
    error.message += Cat("; it gives at most ", limit, " at once");
    return error;
  }
  Memory memory;
  memory.device_ = &device;
  memory.bytes_ = bytes;
  SHARD_CHECK(memory.Allocate(use, what));
  if (use == Use::kStaging) SHARD_CHECK(memory.Map());
  return memory;
}

Status Memory::Allocate(Use use, const std::string& what) {
  auto info = Structure<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
  info.size = bytes_;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
               VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  VkDevice const device = device_->handle();
  SHARD_CHECK(Check(vkCreateBuffer(device, &info, nullptr, &buffer_), what));
  VkMemoryRequirements needed;
  vkGetBufferMemoryRequirements(device, buffer_, &needed);
  // What the device wrote is read through the same staging memory, which is slow if it is not
  // cached.
  const bool staging = use == Use::kStaging;
  const VkMemoryPropertyFlags required =
      staging ? VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT : 0;
  SHARD_TRY(type_, device_->FindType(needed.memoryTypeBits, required,
                                     staging ? VK_MEMORY_PROPERTY_HOST_CACHED_BIT
                                             : VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT));
  auto allocation = Structure<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
  allocation.allocationSize = needed.size;
  allocation.memoryTypeIndex = type_;
  SHARD_CHECK(Check(vkAllocateMemory(device, &allocation, nullptr, &memory_), what));
  counted_ = static_cast<int64_t>(needed.size);
  device_->Count(type_, counted_);
  return Check(vkBindBufferMemory(device, buffer_, memory_, 0), what);
}

Status Memory::Map() {
  void* mapped = nullptr;
  SHARD_CHECK(
      Check(vkMapMemory(device_->handle(), memory_, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory"));
  mapped_ = static_cast<std::byte*>(mapped);
  return Ok();
}

Memory::~Memory() {
  if (device_ == nullptr) return;
  vkDestroyBuffer(device_->handle(), buffer_, nullptr);
  vkFreeMemory(device_->handle(), memory_, nullptr);
  device_->Count(type_, -counted_);
}

void Memory::Swap(Memory& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(buffer_, other.buffer_);
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  std::swap(type_, other.type_);
  std::swap(counted_, other.counted_);
  std::swap(mapped_, other.mapped_);
}

}  // namespace moepack::runtime::vulkan
