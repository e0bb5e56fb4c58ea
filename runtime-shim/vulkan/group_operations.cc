// Operations with sums over a workgroup: norms and attention. The blocks of push constants match
// those of the shaders.
#include "runtime-shim/vulkan/call.h"
#include "runtime-shim/vulkan/vulkan_executor.h"

namespace moepack::runtime::vulkan {

void VulkanExecutor::RmsNorm(const Rows& x, const NormWeights& norm, const Rows& y) {
  Call call(core_, "rms_norm");
  const BoundRows from = call.Bind(x);
  const uint32_t weight = call.BindVector(norm.weight);
  const uint32_t bias = call.BindVector(norm.bias);
  const struct {
    BoundRows x, y;
    uint32_t weight, bias, has_weight, has_bias, count, width;
    float eps;
  } push{from,    call.Bind(y), weight,  bias, norm.weight ? 1u : 0u, norm.bias ? 1u : 0u,
         x.count, x.width,      norm.eps};
  call.Run(x.count, push);
}

void VulkanExecutor::MeasureRows(const Rows& x, const Rows& sizes) {
  Call call(core_, "measure_rows");
  const struct {
    BoundRows x, sizes;
    uint32_t count, width;
  } push{call.Bind(x), call.Bind(sizes), x.count, x.width};
  call.Run(x.count, push);
}

void VulkanExecutor::Attention(const AttentionShape& shape, const AttentionInputs& inputs,
                               const Rows& out) {
  Call call(core_, "attention");
  const BoundRows queries = call.Bind(inputs.queries);
  // The cache may have more rows than are used, and the size of a binding is limited.
  const uint32_t positions = shape.past + inputs.queries.count;
  const BoundRows keys = call.Bind(inputs.keys.Slice(0, positions));
  const BoundRows values = call.Bind(inputs.values.Slice(0, positions));
  const uint32_t sinks = call.BindVector(inputs.sinks);
  const struct {
    BoundRows queries, keys, values, out;
    uint32_t sinks, has_sinks, count, heads, key_heads, key_width, value_width;
    uint32_t past, window, chunk;
    float scale;
  } push{queries,
         keys,
         values,
         call.Bind(out),
         sinks,
         inputs.sinks ? 1u : 0u,
         inputs.queries.count,
         shape.heads,
         shape.key_heads,
         shape.key_width,
         shape.value_width,
         shape.past,
         shape.window,
         shape.chunk,
         shape.scale};
  call.Run(uint64_t{inputs.queries.count} * shape.heads, push);
}

}  // namespace moepack::runtime::vulkan
