#include "runtime-shim/vulkan/call.h"

#include <algorithm>
#include <cstring>

#include "libshard/base/text/text.h"

namespace moepack::runtime::vulkan {
Call::Call(Core& core, std::string_view shader, const CallOptions& options)
    : core_(core), shader_(shader) {
  if (core.fault || !core.fault.Passed(core.recorder->Reserve(options.host_bytes))) return;
  Result<VkPipeline> pipeline = core.pipelines->Get(shader, options.constants);
  if (pipeline) {
    pipeline_ = *pipeline;
  } else {
    core.fault.Set(std::move(pipeline).error());
  }
}

BoundRows Call::Bind(const Rows& rows) {
  const uint64_t values = rows.count == 0 ? 0 : uint64_t{rows.count - 1} * rows.stride + rows.width;
  const uint64_t before =
      BindBytes(*rows.buffer, rows.offset * Rows::kValueBytes, values * Rows::kValueBytes);
  return {static_cast<uint32_t>(before / Rows::kValueBytes), rows.stride};
}

uint32_t Call::BindVector(const Matrix& vector) {
  // An unused binding must still be something: what was bound before.
  if (!vector) {
    Append(bindings_[bound_ - 1].buffer, bindings_[bound_ - 1].offset, bindings_[bound_ - 1].range);
    return 0;
  }
  const uint64_t bytes = vector.columns * Rows::kValueBytes;
  return static_cast<uint32_t>(BindBytes(*vector.buffer, vector.offset, bytes) / Rows::kValueBytes);
}

uint32_t Call::BindWeights(const Matrix& weights) {
  const uint64_t bytes = weights.rows * weights.row_bytes() + kPaddingBytes;
  return static_cast<uint32_t>(BindBytes(*weights.buffer, weights.offset, bytes));
}

void Call::BindWhole(const Buffer& buffer) { BindBytes(buffer, 0, buffer.bytes()); }

uint32_t Call::BindArray(std::span<const std::byte> array) {
  if (pipeline_ == VK_NULL_HANDLE) return 0;
  // An empty array is not read, but a binding has at least one value.
  const uint64_t bytes = std::max<uint64_t>(array.size(), Rows::kValueBytes);
  const Staged staged = core_.recorder->Stage(bytes);
  if (!array.empty()) std::memcpy(staged.bytes, array.data(), array.size());
  Append(staged.buffer, staged.offset, bytes);
  return 0;
}

uint64_t Call::BindBytes(const Buffer& buffer, uint64_t first, uint64_t bytes) {
  const Memory& memory = static_cast<const DeviceBuffer&>(buffer).memory();
  const uint64_t before = first % core_.device->limits().binding_alignment;
  const uint64_t range = (before + bytes + 3) / 4 * 4;
  if (const uint64_t limit = core_.device->limits().binding_bytes; range > limit) {
    core_.fault.Set(
        {Code::kUnsupported,
         Cat("vulkan: ", shader_, ": expected at most ", limit, " bytes in one binding of ",
             core_.device->description(), ", found ", range),
         "use --executor cpu, or a shorter context"});
  }
  Append(memory.buffer(), first - before, range);
  return before;
}

void Call::Append(VkBuffer buffer, uint64_t offset, uint64_t range) {
  bindings_[bound_++] = {buffer, offset, range};
}

void Call::Record(uint64_t groups, std::span<const std::byte> push) {
  if (core_.fault || groups == 0) return;
  Result<VkDescriptorSet> set = core_.recorder->NewSet();
  if (!set) return core_.fault.Set(std::move(set).error());
  std::array<VkWriteDescriptorSet, kMaxBindings> writes{};
  for (uint32_t i = 0; i < bound_; ++i) {
    writes[i].sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
    writes[i].dstSet = *set;
    writes[i].dstBinding = i;
    writes[i].descriptorCount = 1;
    writes[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    writes[i].pBufferInfo = &bindings_[i];
  }
  vkUpdateDescriptorSets(core_.device->handle(), bound_, writes.data(), 0, nullptr);
  VkCommandBuffer const commands = core_.recorder->commands();
  const VkPipelineLayout layout = core_.pipelines->layout();
  vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline_);
  vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &*set, 0,
                          nullptr);
  vkCmdPushConstants(commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                     static_cast<uint32_t>(push.size()), push.data());
  Dispatch(groups);
  core_.recorder->Barrier();
}

// Spreads the groups over the dimensions with as few superfluous ones as possible (Group() in
// rows.glsl).
void Call::Dispatch(uint64_t groups) {
  const auto spread = [](uint64_t count, uint64_t limit) { return (count + limit - 1) / limit; };
  const auto& limits = core_.device->limits().groups;
  const uint64_t z = spread(groups, uint64_t{limits[0]} * limits[1]);
  const uint64_t y = spread(spread(groups, z), limits[0]);
  const uint64_t x = spread(groups, y * z);
  vkCmdDispatch(core_.recorder->commands(), static_cast<uint32_t>(x), static_cast<uint32_t>(y),
                static_cast<uint32_t>(z));
}

}  // namespace moepack::runtime::vulkan
