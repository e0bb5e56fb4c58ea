// Structures of Vulkan that start with their type.
#pragma once

#include <volk.h>

namespace moepack::runtime::vulkan {

// Everything but the type is zero.
template <class T>
T Structure(VkStructureType type) {
  T structure{};
  structure.sType = type;
  return structure;
}

}  // namespace moepack::runtime::vulkan
