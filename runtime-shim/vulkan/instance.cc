#include "runtime-shim/vulkan/instance.h"

#include <algorithm>
#include <array>

#include "libshard/base/text/text.h"
#include "runtime-shim/vulkan/loader.h"
#include "runtime-shim/vulkan/shaders.h"
#include "runtime-shim/vulkan/status.h"
#include "runtime-shim/vulkan/structure.h"

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

}  // namespace moepack::runtime::vulkan
