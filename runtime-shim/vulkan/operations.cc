// Operations on rows, value by value. The blocks of push constants match those of the shaders of
// the same names.

#include "runtime-shim/vulkan/call.h"
#include "runtime-shim/vulkan/vulkan_executor.h"

namespace moepack::runtime::vulkan {
namespace {

// For shaders that need no more than two rows and their size.
struct PairPush {
  BoundRows x, y;
  uint32_t count, width;
};

}  // namespace

void VulkanExecutor::Copy(const Rows& from, const Rows& to) {
  Call call(core_, "copy");
  call.RunOver(from.values(), PairPush{call.Bind(from), call.Bind(to), from.count, from.width});
}

void VulkanExecutor::Transpose(const Rows& x, const Rows& y) {
  Call call(core_, "transpose");
  call.RunOver(y.values(), PairPush{call.Bind(x), call.Bind(y), y.count, y.width});
}

void VulkanExecutor::AddBias(const Rows& x, const Matrix& bias) {
  Call call(core_, "add");
  const struct {
    BoundRows x, bias;
    uint32_t count, width;
    float scale;
  } push{call.Bind(x), {call.BindVector(bias), 0}, x.count, x.width, 1};
  call.RunOver(x.values(), push);
}

void VulkanExecutor::Add(const Rows& x, const Rows& y, float scale) {
  Call call(core_, "add");
  const struct {
    BoundRows x, y;
    uint32_t count, width;
    float scale;
  } push{call.Bind(x), call.Bind(y), x.count, x.width, scale};
  call.RunOver(x.values(), push);
}

void VulkanExecutor::Scale(const Rows& x, float factor) {
  Call call(core_, "scale");
  const struct {
    BoundRows x;
    uint32_t count, width;
    float factor;
  } push{call.Bind(x), x.count, x.width, factor};
  call.RunOver(x.values(), push);
}

void VulkanExecutor::ScaleRows(const Rows& x, std::span<const float> factors) {
  Call call(core_, "scale_rows", {{}, factors.size_bytes()});
  const struct {
    BoundRows x;
    uint32_t first_factor, count, width;
  } push{call.Bind(x), call.BindArray(factors), x.count, x.width};
  call.RunOver(x.values(), push);
}

void VulkanExecutor::ScaleBySigmoid(const Rows& x, const Rows& gate) {
  Call call(core_, "scale_by_sigmoid");
  call.RunOver(x.values(), PairPush{call.Bind(x), call.Bind(gate), x.count, x.width});
}

void VulkanExecutor::Activate(Activation activation, const Rows& gate, const Rows& up) {
  Call call(core_, "activate", {{static_cast<uint32_t>(activation.kind), 0, 0}});
  const struct {
    BoundRows gate, up;
    uint32_t count, width;
    float limit, up_limit;
  } push{call.Bind(gate), call.Bind(up),    gate.count,
         gate.width,      activation.limit, activation.up_limit};
  call.RunOver(gate.values(), push);
}

void VulkanExecutor::Rotate(const Rows& x, const Rotation& rotation, const Rows& turns) {
  const uint32_t pairs = rotation.dims / 2;
  const bool neighbours = rotation.pairing == Pairing::kNeighbours;
  Call call(core_, "rotate");
  const struct {
    BoundRows x, turns;
    uint32_t count, heads, head_width, first, pairs, step, distance;
  } push{call.Bind(x),   call.Bind(turns),     x.count,
         rotation.heads, rotation.head_width,  rotation.first,
         pairs,          neighbours ? 2u : 1u, neighbours ? 1u : pairs};
  call.RunOver(uint64_t{x.count} * rotation.heads * pairs, push);
}

void VulkanExecutor::Gather(const Rows& x, std::span<const uint32_t> rows,
                            std::span<const float> factors, const Rows& y) {
  Call call(core_, "gather", {{}, rows.size_bytes() + factors.size_bytes()});
  const BoundRows from = call.Bind(x);
  const uint32_t first_row = call.BindArray(rows);
  const uint32_t first_factor = call.BindArray(factors);
  const auto count = static_cast<uint32_t>(rows.size());
  const struct {
    BoundRows x, y;
    uint32_t first_index, first_factor, has_factors, count, width;
  } push{from, call.Bind(y), first_row, first_factor, !factors.empty(), count, x.width};
  call.RunOver(uint64_t{count} * x.width, push);
}

void VulkanExecutor::ScatterAdd(const Rows& x, std::span<const uint32_t> rows,
                                std::span<const float> factors, const Rows& y) {
  Call call(core_, "scatter_add", {{}, rows.size_bytes() + factors.size_bytes()});
  const BoundRows to = call.Bind(x);
  const uint32_t first_row = call.BindArray(rows);
  const uint32_t first_factor = call.BindArray(factors);
  const auto count = static_cast<uint32_t>(rows.size());
  const struct {
    BoundRows x, y;
    uint32_t first_index, first_factor, count, width;
  } push{to, call.Bind(y), first_row, first_factor, count, x.width};
  call.RunOver(uint64_t{count} * x.width, push);
}

// Operations with sums over a workgroup: norms and attention. The blocks of push constants match
// those of the shaders.

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
