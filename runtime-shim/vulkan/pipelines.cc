#include "runtime-shim/vulkan/pipelines.h"

#include <string>

#include "libshard/base/text/text.h"
#include "runtime-shim/vulkan/device.h"
#include "runtime-shim/vulkan/status.h"

namespace moepack::runtime::vulkan {

Result<std::unique_ptr<Pipelines>> Pipelines::Create(const Device& device) {
  std::unique_ptr<Pipelines> pipelines(new Pipelines(device.handle()));
  SHARD_CHECK(pipelines->MakeLayouts());
  return pipelines;
}

Status Pipelines::MakeLayouts() {
  std::array<VkDescriptorSetLayoutBinding, kMaxBindings> bindings{};
  for (uint32_t i = 0; i < kMaxBindings; ++i) {
    bindings[i].binding = i;
    bindings[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    bindings[i].descriptorCount = 1;
    bindings[i].stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
  }
  auto set = Structure<VkDescriptorSetLayoutCreateInfo>(
      VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO);
  set.bindingCount = kMaxBindings;
  set.pBindings = bindings.data();
  SHARD_CHECK(Check(vkCreateDescriptorSetLayout(device_, &set, nullptr, &set_layout_),
                    "vkCreateDescriptorSetLayout"));
  const VkPushConstantRange push{VK_SHADER_STAGE_COMPUTE_BIT, 0, kPushBytes};
  auto layout =
      Structure<VkPipelineLayoutCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
  layout.setLayoutCount = 1;
  layout.pSetLayouts = &set_layout_;
  layout.pushConstantRangeCount = 1;
  layout.pPushConstantRanges = &push;
  return Check(vkCreatePipelineLayout(device_, &layout, nullptr, &layout_),
               "vkCreatePipelineLayout");
}

Pipelines::~Pipelines() {
  for (const auto& [key, pipeline] : pipelines_) vkDestroyPipeline(device_, pipeline, nullptr);
  vkDestroyPipelineLayout(device_, layout_, nullptr);
  vkDestroyDescriptorSetLayout(device_, set_layout_, nullptr);
}

Result<VkPipeline> Pipelines::Get(std::string_view name, const Constants& constants) {
  const Shader* const shader = FindShader(name);
  if (shader == nullptr) return Error{Code::kUnsupported, Cat("vulkan: no shader ", name)};
  const auto key = std::pair(shader, constants);
  if (const auto found = pipelines_.find(key); found != pipelines_.end()) return found->second;
  SHARD_TRY(const VkPipeline pipeline, Make(*shader, constants));
  pipelines_[key] = pipeline;
  return pipeline;
}

Result<VkPipeline> Pipelines::Make(const Shader& shader, const Constants& constants) {
  const std::string what = Cat("shader ", shader.name);
  auto code = Structure<VkShaderModuleCreateInfo>(VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
  code.codeSize = shader.code.size_bytes();
  code.pCode = shader.code.data();
  VkShaderModule module = VK_NULL_HANDLE;
  SHARD_CHECK(Check(vkCreateShaderModule(device_, &code, nullptr, &module), what));
  constexpr auto size = sizeof(uint32_t);
  const std::array<VkSpecializationMapEntry, 3> entries = {
      {{0, 0, size}, {1, size, size}, {2, 2 * size, size}}};
  const VkSpecializationInfo specialization{entries.size(), entries.data(), sizeof(constants),
                                            constants.data()};
  auto info =
      Structure<VkComputePipelineCreateInfo>(VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = "main";
  info.stage.pSpecializationInfo = &specialization;
  info.layout = layout_;
  VkPipeline pipeline = VK_NULL_HANDLE;
  const VkResult made =
      vkCreateComputePipelines(device_, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline);
  vkDestroyShaderModule(device_, module, nullptr);
  SHARD_CHECK(Check(made, what));
  return pipeline;
}

}  // namespace moepack::runtime::vulkan
