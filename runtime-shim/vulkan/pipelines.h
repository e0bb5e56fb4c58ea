// Compute pipelines, created on first use.
#pragma once

#include <volk.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "libshard/base/result.h"
#include "runtime-shim/vulkan/device.h"
#include "runtime-shim/vulkan/shaders.h"

namespace moepack::runtime::vulkan {

// Specialization constants 0, 1, 2 of a shader; those that it does not have are ignored.
using Constants = std::array<uint32_t, 3>;

class Pipelines {
 public:
  static Result<std::unique_ptr<Pipelines>> Create(const Device& device);
  Pipelines(const Pipelines&) = delete;
  Pipelines& operator=(const Pipelines&) = delete;
  ~Pipelines();

  // All pipelines share the layouts: kMaxBindings storage buffers, kPushBytes of push constants.
  VkDescriptorSetLayout set_layout() const { return set_layout_; }
  VkPipelineLayout layout() const { return layout_; }
  Result<VkPipeline> Get(std::string_view shader, const Constants& constants);

 private:
  explicit Pipelines(VkDevice device) : device_(device) {}
  Status MakeLayouts();
  Result<VkPipeline> Make(const Shader& shader, const Constants& constants);

  VkDevice device_;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  std::map<std::pair<const Shader*, Constants>, VkPipeline> pipelines_;
};

}  // namespace moepack::runtime::vulkan
