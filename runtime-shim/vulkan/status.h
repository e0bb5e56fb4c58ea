// Turns results of Vulkan into our errors.
#pragma once

#include <volk.h>

#include <optional>
#include <string>
#include <string_view>

#include "libshard/base/result.h"

namespace moepack::runtime::vulkan {

// kUnavailable for everything that Vulkan reports; `what` is what was being done ("vkQueueSubmit",
// "4096 bytes on llvmpipe").
Error ErrorOf(VkResult result, std::string_view what);
Status Check(VkResult result, std::string_view what);

// The first thing that went wrong since the last Take. Operations cannot return an error: they
// leave it here, and later ones do nothing.
class Fault {
 public:
  explicit operator bool() const { return error_.has_value(); }
  void Set(Error error);
  // Sets the error of `status`; true if there is none.
  bool Passed(Status status);
  Status Take();

 private:
  std::optional<Error> error_;
};

}  // namespace moepack::runtime::vulkan
