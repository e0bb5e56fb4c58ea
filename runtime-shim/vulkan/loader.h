// The Vulkan loader, opened when a device is needed, so that everything else runs on machines
// without it.
#pragma once

#include <volk.h>

#include "libshard/base/result.h"

namespace moepack::runtime::vulkan {

// Opens libvulkan.so.1 once per process; kUnavailable if there is none. REQUIRED before any Vulkan
// function is called.
Status OpenLoader();

}  // namespace moepack::runtime::vulkan
