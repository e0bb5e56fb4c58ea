#include "runtime-shim/refit/device_node.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "quant/format.h"

namespace moepack::runtime {
namespace {

// Rows that are read from a store at once.
constexpr size_t kRowsOfLoad = 2048;

// A row as the vector that AddBias takes.
Matrix AsVector(const Rows& row) {
  static const quant::Format* const format = quant::FindFormat("f32");
  return {row.buffer, row.offset * sizeof(float), format, 1, row.width};
}

}  // namespace

FittedTokens FittedOf(const NodeLayer& node, const ExpertTokens& all) {
  FittedTokens fitted;
  for (size_t i = 0; i < all.tokens.size(); ++i) {
    const float weight = node.fit_weights[all.tokens[i]];
    if (weight == 0) continue;
    fitted.tokens.push_back(all.tokens[i]);
    fitted.positions.push_back(static_cast<uint32_t>(i));
    fitted.roots.push_back(std::sqrt(weight));
  }
  return fitted;
}

Result<double> MeanDiagonalOf(DenseAlgebra& algebra, const Doubles& matrix) {
  std::vector<double> values(matrix.count);
  const Doubles diagonal = {matrix.buffer, matrix.offset, matrix.count, 1, matrix.stride + 1};
  SHARD_CHECK(algebra.Read(diagonal, values));
  return std::accumulate(values.begin(), values.end(), 0.0) / matrix.count;
}

uint64_t DeviceNode::BytesOf(const NodeLayer& node) {
  uint64_t values = 3 * node.tokens() * node.experts.hidden;
  for (const ExpertArray& array : kExpertArrays) values += (node.experts.*array.values).size();
  return values * sizeof(float);
}

Result<std::unique_ptr<DeviceNode>> DeviceNode::Make(Products& products, NodeLayer& node,
                                                     uint64_t more) {
  if (products.algebra() == nullptr || node.tokens() == 0) return std::unique_ptr<DeviceNode>();
  if (!products.HasRoomFor(BytesOf(node) + more)) return std::unique_ptr<DeviceNode>();
  std::unique_ptr<DeviceNode> made(new DeviceNode(products, node));
  SHARD_CHECK(made->LoadTokens(*node.inputs, made->inputs_));
  SHARD_CHECK(made->LoadTokens(*node.targets, made->targets_));
  SHARD_CHECK(made->LoadTokens(*node.outputs, made->outputs_));
  SHARD_CHECK(made->LoadExperts());
  return made;
}

Status DeviceNode::LoadTokens(const RowStore& from, Rows& to) {
  const auto count = static_cast<uint32_t>(from.count());
  SHARD_TRY(BufferPtr buffer, executor().Allocate(from.count() * from.width() * sizeof(float)));
  to = {buffer.get(), 0, count, from.width(), from.width()};
  buffers_.push_back(std::move(buffer));
  std::vector<float> rows;
  for (size_t first = 0; first < count; first += kRowsOfLoad) {
    const size_t some = std::min(kRowsOfLoad, count - first);
    rows.resize(some * from.width());
    SHARD_CHECK(from.Read(first, rows));
    executor().Write(rows, to.Slice(static_cast<uint32_t>(first), static_cast<uint32_t>(some)));
  }
  return Ok();
}

Status DeviceNode::LoadExperts() {
  for (const ExpertArray& array : kExpertArrays) {
    const std::vector<float>& values = node_.experts.*array.values;
    if (values.empty()) continue;
    SHARD_TRY(BufferPtr buffer, executor().Load(std::as_bytes(std::span(values))));
    const auto columns = static_cast<uint32_t>(node_.experts.*array.columns);
    all_.*array.rows = {buffer.get(), 0, static_cast<uint32_t>(values.size() / columns), columns,
                        columns};
    buffers_.push_back(std::move(buffer));
  }
  return Ok();
}

DeviceExpert DeviceNode::expert(size_t place) const {
  DeviceExpert own;
  for (const ExpertArray& array : kExpertArrays) {
    const Rows& all = all_.*array.rows;
    if (all.buffer == nullptr) continue;
    const auto rows = all.count / static_cast<uint32_t>(node_.experts.expert_ids.size());
    own.*array.rows = all.Slice(static_cast<uint32_t>(place) * rows, rows);
  }
  return own;
}

void DeviceNode::Project(const Rows& x, const Rows& weight, const Rows& bias,
                         const Rows& out) const {
  algebra().Multiply(Straight(x), Turned(weight), out);
  if (bias.buffer != nullptr) executor().AddBias(out, AsVector(bias));
}

Status DeviceNode::Activations(const DeviceExpert& own, const ExpertTokens& tokens,
                               const Rows& out) {
  const bool weigh = node_.form.weigh_inputs;
  SHARD_TRY(const Rows in, in_.Take(executor(), out.count, inputs_.width));
  SHARD_TRY(const Rows up, up_.Take(executor(), out.count, out.width));
  executor().Gather(inputs_, tokens.tokens,
                    weigh ? std::span(tokens.gates) : std::span<const float>(), in);
  Project(in, own.first(), own.first_bias(), out);
  if (own.gate.buffer != nullptr) Project(in, own.up, own.up_bias, up);
  executor().Activate(node_.form.activation, out, up);
  if (!weigh) executor().ScaleRows(out, tokens.gates);
  return Ok();
}

Status DeviceNode::Residuals(std::span<const uint32_t> tokens, std::span<const float> factors,
                             const Rows& out) {
  SHARD_TRY(const Rows other, other_.Take(executor(), out.count, out.width));
  executor().Gather(targets_, tokens, {}, out);
  executor().Gather(outputs_, tokens, {}, other);
  executor().Add(out, other, -1);
  executor().ScaleRows(out, factors);
  return Ok();
}

Status DeviceNode::ReadArray(const ExpertArray& array, size_t place) const {
  const Rows rows = expert(place).*array.rows;
  if (rows.buffer == nullptr) return Ok();
  std::vector<float>& values = node_.experts.*array.values;
  return executor().Read(rows, std::span(values).subspan(place * rows.values(), rows.values()));
}

Status DeviceNode::ReadExperts(std::span<const size_t> places) const {
  for (const size_t place : places) {
    for (const ExpertArray& array : kExpertArrays) SHARD_CHECK(ReadArray(array, place));
  }
  return Ok();
}

Status DeviceNode::ReadDown(std::span<const size_t> places) const {
  for (const size_t place : places) SHARD_CHECK(ReadArray(kExpertArrays[kDown], place));
  return Ok();
}

Status DeviceNode::ReadOutputs() const {
  std::vector<float> rows;
  for (size_t first = 0; first < outputs_.count; first += kRowsOfLoad) {
    const size_t some = std::min(kRowsOfLoad, outputs_.count - first);
    rows.resize(some * outputs_.width);
    SHARD_CHECK(executor().Read(
        outputs_.Slice(static_cast<uint32_t>(first), static_cast<uint32_t>(some)), rows));
    SHARD_CHECK(node_.outputs->Write(first, rows));
  }
  return Ok();
}

}  // namespace moepack::runtime
