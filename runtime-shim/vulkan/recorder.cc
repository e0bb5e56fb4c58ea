#include "runtime-shim/vulkan/recorder.h"

#include "runtime-shim/vulkan/device.h"
#include "runtime-shim/vulkan/shaders.h"
#include "runtime-shim/vulkan/status.h"

namespace moepack::runtime::vulkan {
namespace {

constexpr uint32_t kOperations = 256;  // of a frame
constexpr uint64_t kParts = 4;         // of the staged memory of an operation

constexpr VkPipelineStageFlags kWork =
    VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
constexpr VkAccessFlags kWrites = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
constexpr VkAccessFlags kReads = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT;

}  // namespace

Result<std::unique_ptr<Recorder>> Recorder::Create(Device& device, VkDescriptorSetLayout layout) {
  std::unique_ptr<Recorder> recorder(new Recorder(device, layout));
  for (Frame& frame : recorder->frames_) SHARD_CHECK(recorder->Make(frame));
  return recorder;
}

Status Recorder::Make(Frame& frame) {
  VkDevice const device = device_.handle();
  auto pool = Structure<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
  pool.flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
  pool.queueFamilyIndex = device_.family();
  SHARD_CHECK(
      Check(vkCreateCommandPool(device, &pool, nullptr, &frame.pool), "vkCreateCommandPool"));
  auto commands =
      Structure<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
  commands.commandPool = frame.pool;
  commands.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  commands.commandBufferCount = 1;
  SHARD_CHECK(Check(vkAllocateCommandBuffers(device, &commands, &frame.commands),
                    "vkAllocateCommandBuffers"));
  const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, kOperations * kMaxBindings};
  auto sets = Structure<VkDescriptorPoolCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO);
  sets.maxSets = kOperations;
  sets.poolSizeCount = 1;
  sets.pPoolSizes = &size;
  SHARD_CHECK(
      Check(vkCreateDescriptorPool(device, &sets, nullptr, &frame.sets), "vkCreateDescriptorPool"));
  const auto fence = Structure<VkFenceCreateInfo>(VK_STRUCTURE_TYPE_FENCE_CREATE_INFO);
  SHARD_CHECK(Check(vkCreateFence(device, &fence, nullptr, &frame.done), "vkCreateFence"));
  SHARD_TRY(frame.staging, Memory::Create(device_, kStagingBytes, Memory::Use::kStaging));
  return Ok();
}

Recorder::~Recorder() {
  vkDeviceWaitIdle(device_.handle());
  for (Frame& frame : frames_) {
    vkDestroyFence(device_.handle(), frame.done, nullptr);
    vkDestroyDescriptorPool(device_.handle(), frame.sets, nullptr);
    vkDestroyCommandPool(device_.handle(), frame.pool, nullptr);
  }
}

uint64_t Recorder::Aligned(uint64_t bytes) const {
  const uint64_t alignment = device_.limits().binding_alignment;
  return (bytes + alignment - 1) / alignment * alignment;
}

Status Recorder::Reserve(uint64_t staged) {
  const uint64_t needed = staged + kParts * device_.limits().binding_alignment;
  if (Frame& frame = frames_[current_]; frame.recording) {
    if (frame.operations < kOperations && frame.staged + needed <= frame.staging.bytes())
      return Ok();
    SHARD_CHECK(Submit(frame));
    current_ = 1 - current_;
  }
  Frame& frame = frames_[current_];
  SHARD_CHECK(Begin(frame));
  if (needed > frame.staging.bytes()) {
    SHARD_TRY(frame.staging, Memory::Create(device_, needed, Memory::Use::kStaging));
  }
  return Ok();
}

Status Recorder::Begin(Frame& frame) {
  SHARD_CHECK(Wait(frame));
  frame.staged = 0;
  frame.operations = 0;
  SHARD_CHECK(Check(vkResetCommandPool(device_.handle(), frame.pool, 0), "vkResetCommandPool"));
  SHARD_CHECK(
      Check(vkResetDescriptorPool(device_.handle(), frame.sets, 0), "vkResetDescriptorPool"));
  auto info = Structure<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  SHARD_CHECK(Check(vkBeginCommandBuffer(frame.commands, &info), "vkBeginCommandBuffer"));
  frame.recording = true;
  return Ok();
}

Staged Recorder::Stage(uint64_t bytes) {
  Frame& frame = frames_[current_];
  const uint64_t offset = Aligned(frame.staged);
  frame.staged = offset + bytes;
  return {frame.staging.buffer(), offset, frame.staging.mapped() + offset};
}

Result<VkDescriptorSet> Recorder::NewSet() {
  Frame& frame = frames_[current_];
  ++frame.operations;
  auto info =
      Structure<VkDescriptorSetAllocateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO);
  info.descriptorPool = frame.sets;
  info.descriptorSetCount = 1;
  info.pSetLayouts = &layout_;
  VkDescriptorSet set = VK_NULL_HANDLE;
  SHARD_CHECK(
      Check(vkAllocateDescriptorSets(device_.handle(), &info, &set), "vkAllocateDescriptorSets"));
  return set;
}

void Recorder::Barrier() { Barrier(kWork, kReads | kWrites); }

void Recorder::BarrierToHost() { Barrier(VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT); }

void Recorder::Barrier(VkPipelineStageFlags stages, VkAccessFlags access) {
  auto barrier = Structure<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
  barrier.srcAccessMask = kWrites;
  barrier.dstAccessMask = access;
  vkCmdPipelineBarrier(commands(), kWork, stages, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

Status Recorder::Submit(Frame& frame) {
  frame.recording = false;
  SHARD_CHECK(Check(vkEndCommandBuffer(frame.commands), "vkEndCommandBuffer"));
  auto info = Structure<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
  info.commandBufferCount = 1;
  info.pCommandBuffers = &frame.commands;
  SHARD_CHECK(Check(vkQueueSubmit(device_.queue(), 1, &info, frame.done), "vkQueueSubmit"));
  frame.submitted = true;
  return Ok();
}

Status Recorder::Wait(Frame& frame) {
  if (!frame.submitted) return Ok();
  frame.submitted = false;
  VkDevice const device = device_.handle();
  SHARD_CHECK(
      Check(vkWaitForFences(device, 1, &frame.done, VK_TRUE, UINT64_MAX), "vkWaitForFences"));
  return Check(vkResetFences(device, 1, &frame.done), "vkResetFences");
}

Status Recorder::Finish() {
  Status status = Ok();
  if (Frame& frame = frames_[current_]; frame.recording) {
    status = Submit(frame);
    current_ = 1 - current_;
  }
  for (Frame& frame : frames_) {
    Status waited = Wait(frame);
    if (status) status = std::move(waited);
  }
  return status;
}

}  // namespace moepack::runtime::vulkan
