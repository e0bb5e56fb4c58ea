#include "runtime-shim/vulkan/device.h"

#include <algorithm>
#include <vector>

#include "libshard/base/text/text.h"
#include "runtime-shim/vulkan/instance.h"
#include "runtime-shim/vulkan/status.h"
#include "runtime-shim/vulkan/structure.h"

namespace moepack::runtime::vulkan {
namespace {

bool HasExtension(VkPhysicalDevice device, const std::string& name) {
  uint32_t count = 0;
  if (vkEnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr) < 0) return false;
  std::vector<VkExtensionProperties> extensions(count);
  if (vkEnumerateDeviceExtensionProperties(device, nullptr, &count, extensions.data()) < 0)
    return false;
  return std::ranges::any_of(extensions, [&](const VkExtensionProperties& extension) {
    return extension.extensionName == name;
  });
}

}  // namespace

Result<std::unique_ptr<Device>> Device::Create(VkPhysicalDevice physical) {
  std::unique_ptr<Device> device(new Device(physical));
  SHARD_CHECK(device->Start());
  device->ReadLimits();
  device->ReadMemory();
  return device;
}

Status Device::Start() {
  family_ = ComputeFamily(physical_).value_or(0);
  tells_budget_ = HasExtension(physical_, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  const float priority = 1;
  auto queue = Structure<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
  queue.queueFamilyIndex = family_;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  const char* const extension = VK_EXT_MEMORY_BUDGET_EXTENSION_NAME;
  auto info = Structure<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = tells_budget_ ? 1 : 0;
  info.ppEnabledExtensionNames = &extension;
  SHARD_CHECK(Check(vkCreateDevice(physical_, &info, nullptr, &device_), description()));
  vkGetDeviceQueue(device_, family_, 0, &queue_);
  return Ok();
}

void Device::ReadLimits() {
  auto newer = Structure<VkPhysicalDeviceMaintenance4Properties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES);
  auto allocation = Structure<VkPhysicalDeviceMaintenance3Properties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES);
  auto properties =
      Structure<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
  properties.pNext = &allocation;
  vkGetPhysicalDeviceProperties2(physical_, &properties);
  limits_.allocation_bytes = allocation.maxMemoryAllocationSize;
  if (properties.properties.apiVersion >= VK_API_VERSION_1_3) {
    allocation.pNext = &newer;
    vkGetPhysicalDeviceProperties2(physical_, &properties);
    limits_.allocation_bytes = std::min(limits_.allocation_bytes, newer.maxBufferSize);
  }
  const VkPhysicalDeviceLimits& found = properties.properties.limits;
  limits_.binding_bytes = found.maxStorageBufferRange;
  limits_.binding_alignment = std::max<uint64_t>(4, found.minStorageBufferOffsetAlignment);
  std::ranges::copy(found.maxComputeWorkGroupCount, limits_.groups.begin());
}

void Device::ReadMemory() {
  vkGetPhysicalDeviceMemoryProperties(physical_, &memory_);
  const auto type = FindType(UINT32_MAX, 0, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
  if (type) heap_ = memory_.memoryTypes[*type].heapIndex;
}

void Device::Count(uint32_t type, int64_t bytes) {
  if (memory_.memoryTypes[type].heapIndex == heap_) allocated_ += bytes;
}

Device::~Device() { vkDestroyDevice(device_, nullptr); }

std::string Device::description() const { return DescriptionOf(physical_); }

uint64_t Device::available() const {
  auto budget = Structure<VkPhysicalDeviceMemoryBudgetPropertiesEXT>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);
  auto memory = Structure<VkPhysicalDeviceMemoryProperties2>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2);
  if (tells_budget_) memory.pNext = &budget;
  vkGetPhysicalDeviceMemoryProperties2(physical_, &memory);
  const uint64_t limit = tells_budget_ ? budget.heapBudget[heap_] : heap_bytes();
  const uint64_t used = tells_budget_ ? budget.heapUsage[heap_] : static_cast<uint64_t>(allocated_);
  return limit - std::min(limit, used);
}

Result<uint32_t> Device::FindType(uint32_t allowed, VkMemoryPropertyFlags required,
                                  VkMemoryPropertyFlags preferred) const {
  for (const VkMemoryPropertyFlags wanted : {required | preferred, required}) {
    for (uint32_t i = 0; i < memory_.memoryTypeCount; ++i) {
      const VkMemoryPropertyFlags flags = memory_.memoryTypes[i].propertyFlags;
      if ((allowed >> i & 1) != 0 && (flags & wanted) == wanted) return i;
    }
  }
  return ErrorOf(VK_ERROR_FEATURE_NOT_PRESENT, "memory of the kind that is needed");
}

}  // namespace moepack::runtime::vulkan
