// Executor through Vulkan. Operations are recorded and submitted many at a time; weights and
// activations are in device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "runtime-shim/executor/executor.h"
#include "runtime-shim/vulkan/core.h"

namespace moepack::runtime::vulkan {

class VulkanExecutor : public Executor {
 public:
  static Result<std::unique_ptr<VulkanExecutor>> Open(const ExecutorOptions& options);

  std::string name() const override { return "vulkan"; }
  std::string description() const override { return core_.device->description(); }
  uint64_t available() const override { return core_.device->available(); }
  bool Supports(const quant::Format* format) const override;
  const Core& core() const { return core_; }

  Result<BufferPtr> Allocate(uint64_t bytes) override;
  Result<BufferPtr> Load(const TensorBytes& bytes) override;
  void Write(std::span<const float> values, const Rows& to) override;
  Status Read(const Rows& from, std::span<float> values) override;
  Status Finish() override;

  void MatMul(const Matrix& weights, const Rows& x, const Rows& y) override;
  SHARD_OPERATIONS(SHARD_OVERRIDE)

 private:
  VulkanExecutor() = default;
  Status Start(const ExecutorOptions& options);
  Result<std::unique_ptr<DeviceBuffer>> NewBuffer(uint64_t bytes);
  // From byte `offset` of the buffer on.
  Status Upload(ByteView bytes, uint64_t offset, const DeviceBuffer& to);
  Status WritePiece(std::span<const float> values, const Rows& to);
  Status ReadPiece(const Rows& from, std::span<float> values);
  // What the layer and earlier operations left.
  Status TakeErrors();
  void MatMulSlice(const Matrix& weights, const Rows& x, const Rows& y);
  void EmbedSlice(const Matrix& weights, std::span<const uint32_t> ids, const Rows& y);
  // The code book of a type (points.h) on the device, copied there when it is first needed. Null
  // for types without one, and after an error.
  const Buffer* PointBuffer(const quant::Format& format);
  // Rows of `weights` that fit in a binding; 0 if not even one does.
  uint32_t RowsPerBinding(const Matrix& weights) const;

  Core core_;
  std::map<const uint16_t*, BufferPtr> points_;  // by what PointsOf returns
};

}  // namespace moepack::runtime::vulkan
