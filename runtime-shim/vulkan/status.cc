#include "runtime-shim/vulkan/status.h"

#include "libshard/base/text/text.h"

namespace moepack::runtime::vulkan {
namespace {

struct Meaning {
  VkResult result;
  const char* text;
  const char* hint;
};

constexpr Meaning kMeanings[] = {
    {VK_ERROR_DEVICE_LOST, "the device was lost", "look at the system log for the driver's reason"},
    {VK_ERROR_OUT_OF_DEVICE_MEMORY, "the device is out of memory",
     "load fewer groups, or use --executor cpu"},
    {VK_ERROR_OUT_OF_HOST_MEMORY, "the driver is out of host memory",
     "load fewer groups, or use --executor cpu"},
    {VK_ERROR_OUT_OF_POOL_MEMORY, "the driver is out of pool memory", ""},
    {VK_ERROR_TOO_MANY_OBJECTS, "the device allows no more allocations",
     "load fewer groups, or use --executor cpu"},
    {VK_ERROR_INCOMPATIBLE_DRIVER, "no driver was found",
     "install the driver of the GPU, or mesa-vulkan-drivers for the software driver"},
    {VK_ERROR_INITIALIZATION_FAILED, "the driver does not start", ""},
    {VK_ERROR_LAYER_NOT_PRESENT, "the validation layer is not installed",
     "install vulkan-validationlayers"},
    {VK_ERROR_EXTENSION_NOT_PRESENT, "an extension is not there", ""},
};

}  // namespace

Error ErrorOf(VkResult result, std::string_view what) {
  for (const Meaning& meaning : kMeanings) {
    if (meaning.result != result) continue;
    return {Code::kUnavailable, Cat("vulkan: ", what, ": ", meaning.text), meaning.hint};
  }
  return {Code::kUnavailable,
          Cat("vulkan: ", what, ": expected success, found VkResult ", static_cast<int>(result))};
}

Status Check(VkResult result, std::string_view what) {
  if (result == VK_SUCCESS) return Ok();
  return ErrorOf(result, what);
}

void Fault::Set(Error error) {
  if (!error_) error_ = std::move(error);
}

bool Fault::Passed(Status status) {
  if (status) return true;
  Set(std::move(status).error());
  return false;
}

Status Fault::Take() {
  if (!error_) return Ok();
  Error error = std::move(*error_);
  error_.reset();
  return error;
}

}  // namespace moepack::runtime::vulkan
