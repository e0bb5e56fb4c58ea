#include "runtime-shim/vulkan/device.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "libshard/base/text/text.h"
#include "runtime-shim/vulkan/loader.h"
#include "runtime-shim/vulkan/shaders.h"
#include "runtime-shim/vulkan/status.h"

namespace moepack::runtime::vulkan {
namespace {

constexpr const char* kLayer = "VK_LAYER_KHRONOS_validation";
constexpr uint32_t kVersion = VK_API_VERSION_1_1;
// Lets newer devices report what only their version has (Limits).
constexpr uint32_t kNewestVersion = VK_API_VERSION_1_3;

// Lower ranks are tried first.
int Rank(VkPhysicalDevice device) {
  VkPhysicalDeviceProperties properties;
  vkGetPhysicalDeviceProperties(device, &properties);
  constexpr std::array order = {VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
                                VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
                                VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU, VK_PHYSICAL_DEVICE_TYPE_CPU};
  return static_cast<int>(std::ranges::find(order, properties.deviceType) - order.begin());
}

bool Usable(VkPhysicalDevice device) {
  VkPhysicalDeviceProperties properties;
  vkGetPhysicalDeviceProperties(device, &properties);
  return properties.apiVersion >= kVersion && ComputeFamily(device) &&
         properties.limits.maxPerStageDescriptorStorageBuffers >= kMaxBindings;
}

bool HasValidation() {
  uint32_t count = 0;
  if (vkEnumerateInstanceLayerProperties(&count, nullptr) != VK_SUCCESS) return false;
  std::vector<VkLayerProperties> layers(count);
  if (vkEnumerateInstanceLayerProperties(&count, layers.data()) < 0) return false;
  return std::ranges::any_of(layers, [](const VkLayerProperties& layer) {
    return layer.layerName == std::string(kLayer);
  });
}

}  // namespace

std::optional<uint32_t> ComputeFamily(VkPhysicalDevice device) {
  uint32_t count = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(device, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vkGetPhysicalDeviceQueueFamilyProperties(device, &count, families.data());
  for (uint32_t i = 0; i < count; ++i)
    if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) != 0) return i;
  return std::nullopt;
}

std::string DescriptionOf(VkPhysicalDevice device) {
  VkPhysicalDeviceProperties properties;
  vkGetPhysicalDeviceProperties(device, &properties);
  return Cat(properties.deviceName, ", Vulkan ", VK_API_VERSION_MAJOR(properties.apiVersion), ".",
             VK_API_VERSION_MINOR(properties.apiVersion));
}

Result<std::unique_ptr<Instance>> Instance::Create(bool validation) {
  std::unique_ptr<Instance> instance(new Instance);
  SHARD_CHECK(instance->Start(validation));
  if (validation) SHARD_CHECK(instance->ListenToValidation());
  return instance;
}

Status Instance::Start(bool validation) {
  SHARD_CHECK(OpenLoader());
  if (validation && !HasValidation()) return ErrorOf(VK_ERROR_LAYER_NOT_PRESENT, kLayer);
  auto application = Structure<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
  application.pApplicationName = "moepack";
  application.apiVersion = kNewestVersion;
  const char* const extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
  auto info = Structure<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
  info.pApplicationInfo = &application;
  info.enabledLayerCount = info.enabledExtensionCount = validation ? 1 : 0;
  info.ppEnabledLayerNames = &kLayer;
  info.ppEnabledExtensionNames = &extension;
  SHARD_CHECK(Check(vkCreateInstance(&info, nullptr, &instance_), "vkCreateInstance"));
  volkLoadInstance(instance_);
  return Ok();
}

Status Instance::ListenToValidation() {
  auto info = Structure<VkDebugUtilsMessengerCreateInfoEXT>(
      VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT);
  info.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  info.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
  info.pfnUserCallback = Listen;
  info.pUserData = this;
  // Not volk's: creating another instance without the extension sets its function to null.
  const auto create = reinterpret_cast<PFN_vkCreateDebugUtilsMessengerEXT>(
      vkGetInstanceProcAddr(instance_, "vkCreateDebugUtilsMessengerEXT"));
  if (create == nullptr)
    return ErrorOf(VK_ERROR_EXTENSION_NOT_PRESENT, VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
  return Check(create(instance_, &info, nullptr, &messenger_), "vkCreateDebugUtilsMessengerEXT");
}

Instance::~Instance() {
  if (instance_ == VK_NULL_HANDLE) return;
  if (messenger_ != VK_NULL_HANDLE) {
    const auto destroy = reinterpret_cast<PFN_vkDestroyDebugUtilsMessengerEXT>(
        vkGetInstanceProcAddr(instance_, "vkDestroyDebugUtilsMessengerEXT"));
    destroy(instance_, messenger_, nullptr);
  }
  vkDestroyInstance(instance_, nullptr);
}

Result<std::vector<VkPhysicalDevice>> Instance::Devices() const {
  uint32_t count = 0;
  SHARD_CHECK(
      Check(vkEnumeratePhysicalDevices(instance_, &count, nullptr), "vkEnumeratePhysicalDevices"));
  std::vector<VkPhysicalDevice> devices(count);
  // VK_INCOMPLETE: a device was added in between.
  if (const VkResult result = vkEnumeratePhysicalDevices(instance_, &count, devices.data());
      result < 0)
    return ErrorOf(result, "vkEnumeratePhysicalDevices");
  devices.resize(count);
  std::erase_if(devices, [](VkPhysicalDevice device) { return !Usable(device); });
  std::ranges::stable_sort(devices, {}, Rank);
  return devices;
}

VkBool32 Instance::Listen(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                          const VkDebugUtilsMessengerCallbackDataEXT* data, void* instance) {
  auto* const self = static_cast<Instance*>(instance);
  const std::scoped_lock lock(self->mutex_);
  self->messages_ += Cat(self->messages_.empty() ? "" : "\n", data->pMessage);
  return VK_FALSE;
}

std::string Instance::TakeMessages() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(messages_, {});
}

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
