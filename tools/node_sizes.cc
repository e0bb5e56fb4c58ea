// The arithmetic behind `list-tensors --summary`.
#include <algorithm>

#include "libshard/text.h"
#include "quant/format.h"
#include "tools/model_summary.h"

namespace cli {
namespace {

constexpr std::array kGroupCounts = {2u, 4u, 8u, 16u};
constexpr std::array kTypes = {"q8_0", "q6_K", "q5_K", "q4_K", "q3_K", "q2_K"};
constexpr const char* kTrunkType = "q8_0";

// Bytes of the largest share when the experts of every layer are divided into `groups`.
uint64_t LargestGroup(const shard::MoeModel& model, uint32_t groups) {
  uint64_t bytes = 0;
  for (const shard::MoeLayer& layer : model.layers()) {
    bytes += (layer.experts + groups - 1) / groups * layer.expert_bytes;
  }
  return bytes;
}

// Parameters per stored byte of an expert. Total and active parameters differ by the experts that
// are not picked, so their quotient needs no look at how a family packs its integers.
std::optional<double> ParametersPerByte(const shard::MoeModel& model,
                                        const shard::ParameterCount& parameters) {
  uint64_t idle_bytes = 0;
  for (const shard::MoeLayer& layer : model.layers()) {
    if (layer.mtp) continue;
    if (layer.top_k == 0 || layer.top_k > layer.experts) return std::nullopt;
    idle_bytes += (layer.experts - layer.top_k) * layer.expert_bytes;
  }
  if (idle_bytes == 0 || parameters.active >= parameters.total) return std::nullopt;
  return static_cast<double>(parameters.total - parameters.active) /
         static_cast<double>(idle_bytes);
}

uint64_t Quantized(double parameters, const char* type) {
  return static_cast<uint64_t>(parameters * quant::FindFormat(type)->BitsPerValue() / 8);
}

}  // namespace

std::array<PartTotal, 4> TotalsByPart(const shard::MoeModel& model) {
  std::array<PartTotal, 4> totals;
  for (size_t i = 0; i < totals.size(); ++i) totals[i].part = static_cast<shard::Part>(i);
  for (const shard::ModelTensor& tensor : model.tensors()) {
    PartTotal& total = totals[static_cast<size_t>(tensor.part)];
    ++total.tensors;
    total.bytes += model.entry(tensor).bytes;
  }
  return totals;
}

std::optional<NodeSizes> EstimateNodeSizes(const shard::MoeModel& model,
                                           const shard::ParameterCount& parameters) {
  if (model.checkpoint().names_only()) return std::nullopt;
  uint64_t trunk = 0;
  for (const PartTotal& total : TotalsByPart(model)) {
    if (total.part != shard::Part::kExpert) trunk += total.bytes;
  }
  const std::optional<double> per_byte = ParametersPerByte(model, parameters);
  const double all = static_cast<double>(parameters.total) + static_cast<double>(parameters.mtp) +
                     static_cast<double>(parameters.other_modalities);
  const double in_trunk = all - per_byte.value_or(0) * static_cast<double>(LargestGroup(model, 1));

  NodeSizes sizes;
  if (per_byte) sizes.types.assign(kTypes.begin(), kTypes.end());
  for (const uint32_t groups : kGroupCounts) {
    if (groups > model.max_experts()) break;
    const uint64_t group = LargestGroup(model, groups);
    NodeSize& row = sizes.rows.emplace_back(NodeSize{groups, trunk + group, {}});
    for (const std::string& type : sizes.types) {
      const double in_group = *per_byte * static_cast<double>(group);
      row.quantized.push_back(Quantized(std::max(in_trunk, 0.0), kTrunkType) +
                              Quantized(in_group, type.c_str()));
    }
  }
  return sizes;
}

}  // namespace cli
