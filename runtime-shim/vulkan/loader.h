// The Vulkan loader, opened when a device is asked for: what needs none runs on machines without.
#pragma once

#include <volk.h>

#include "libshard/base/result.h"

namespace moepack::runtime::vulkan {

// Opens libvulkan.so.1 once per process; kUnavailable when there is none. REQUIRED before any
// function of Vulkan is called.
Status OpenLoader();

}  // namespace moepack::runtime::vulkan
