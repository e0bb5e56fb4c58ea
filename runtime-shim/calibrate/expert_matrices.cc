#include "runtime-shim/calibrate/expert_matrices.h"

#include <algorithm>
#include <utility>

#include "libshard/base/text/text.h"
#include "runtime-shim/session/device_model.h"

namespace moepack::runtime {
namespace {

// Gate comes first in a fused tensor, as llama.cpp's converter writes it.
constexpr std::pair<const char*, HostLinear HostMlp::*> kLinears[] = {
    {"ffn_gate_exps.weight", &HostMlp::gate},  {"ffn_gate_up_exps.weight", &HostMlp::gate},
    {"ffn_gate_up_exps.weight", &HostMlp::up}, {"ffn_up_exps.weight", &HostMlp::up},
    {"ffn_down_exps.weight", &HostMlp::down},
};

Error WrongBytes(const std::string& name, uint64_t expected, uint64_t found) {
  return {Code::kMismatch, Cat("calibrated tensor ", Quoted(name), ": expected ", expected,
                               " bytes, found ", found)};
}

// An expert's matrix of a node.
HostLinear PartOf(const std::vector<float>& weights, const std::vector<float>& bias, size_t place,
                  uint64_t rows, uint64_t columns) {
  HostLinear linear;
  if (weights.empty()) return linear;
  linear.rows = rows;
  linear.columns = columns;
  const auto some = [&](const std::vector<float>& all, uint64_t each) {
    const auto part = std::span(all).subspan(place * each, each);
    return std::vector<float>(part.begin(), part.end());
  };
  linear.weights = some(weights, rows * columns);
  if (!bias.empty()) linear.bias = some(bias, rows);
  return linear;
}

}  // namespace

Result<ExpertMatrices> ExpertMatrices::Of(const Input& input, bool known, EncodedTensors& encoded) {
  ExpertMatrices matrices(input, encoded);
  matrices.FindExperts();
  SHARD_CHECK(matrices.FindTensors(known));
  return matrices;
}

void ExpertMatrices::FindExperts() {
  if (input_.node != nullptr) {
    ids_ = input_.node->experts.expert_ids;
  } else {
    for (uint32_t id = 0; id < input_.source.table().size(); ++id) ids_.push_back(id);
  }
  for (const uint32_t id : ids_) {
    const bool here = input_.node == nullptr || Contains(input_.node->refitted, id);
    slots_.push_back(here ? std::optional(slot_count_++) : std::nullopt);
  }
}

Status ExpertMatrices::FindTensors(bool known) {
  const std::string block = Cat("blk.", input_.layer, ".");
  for (const HostTensor& tensor : input_.source.sets()[0].tensors) {
    const auto type = input_.types.find(tensor.name);
    if (!tensor.name.starts_with(block) || type == input_.types.end()) continue;
    ExpertTensor expert{
        &tensor, type->second, tensor.shape[tensor.shape.size() - 2], tensor.shape.back(), false,
        {}};
    for (const auto& [name, linear] : kLinears) {
      if (tensor.name == block + name) expert.linears.push_back(linear);
    }
    expert.down = expert.linears == std::vector{&HostMlp::down};
    if (input_.node != nullptr) {
      const auto whole = input_.node->whole.find(tensor.name);
      const uint64_t bytes = whole == input_.node->whole.end() ? 0 : whole->second.size();
      if (bytes != tensor.shape[0] * expert.bytes())
        return WrongBytes(tensor.name, tensor.shape[0] * expert.bytes(), bytes);
    }
    const uint64_t bytes = slot_count_ * expert.bytes();
    if (bytes > 0) {
      std::vector<std::byte>& slabs = (*encoded_)[tensor.name];
      if (known && slabs.size() != bytes) return WrongBytes(tensor.name, bytes, slabs.size());
      slabs.resize(bytes);
    }
    tensors_.push_back(std::move(expert));
  }
  return Ok();
}

std::vector<const quant::Format*> ExpertMatrices::TypesOf(bool down) const {
  std::vector<const quant::Format*> types;
  for (const ExpertTensor& expert : tensors_) {
    if (expert.down == down) types.push_back(expert.type);
  }
  return types;
}

HostLinear ExpertMatrices::HostOf(const Linear& linear) const {
  // The bytes that a matrix on the executor was loaded from.
  const auto bytes = [&](const Matrix& matrix, uint64_t count) {
    return input_.watch.LoadedFrom(matrix.buffer).Part(matrix.offset, count);
  };
  HostLinear host;
  if (!linear.weight) return host;
  host.rows = linear.weight.rows;
  host.columns = linear.weight.columns;
  host.weights.resize(host.rows * host.columns);
  linear.weight.format->decode(bytes(linear.weight, host.rows * linear.weight.row_bytes()),
                               host.weights);
  if (!linear.bias) return host;
  host.bias.resize(host.rows);
  linear.bias.format->decode(bytes(linear.bias, linear.bias.row_bytes()), host.bias);
  return host;
}

HostMlp ExpertMatrices::InFull(size_t place) const {
  if (input_.node == nullptr) {
    const MlpWeights& mlp = *input_.source.table()[ids_[place]];
    return {HostOf(mlp.gate), HostOf(mlp.up), HostOf(mlp.down)};
  }
  const RefittedExperts& all = input_.node->experts;
  return {PartOf(all.gate, all.gate_bias, place, all.width, all.hidden),
          PartOf(all.up, all.up_bias, place, all.width, all.hidden),
          PartOf(all.down, all.down_bias, place, all.hidden, all.width)};
}

std::vector<float> ExpertMatrices::RowsOf(const ExpertTensor& tensor, const HostMlp& mlp) {
  std::vector<float> rows;
  for (const auto linear : tensor.linears) {
    const std::vector<float>& weights = (mlp.*linear).weights;
    rows.insert(rows.end(), weights.begin(), weights.end());
  }
  return rows;
}

void ExpertMatrices::PutEncoded(size_t place, bool down, HostMlp& mlp) const {
  for (const ExpertTensor& tensor : tensors_) {
    if (tensor.down != down) continue;
    std::span<const std::byte> rows = Rows(tensor, place);
    for (const auto member : tensor.linears) {
      HostLinear& linear = mlp.*member;
      const uint64_t bytes = linear.rows * *tensor.type->BytesFor(tensor.columns);
      tensor.type->decode(rows.first(bytes), linear.weights);
      rows = rows.subspan(bytes);
    }
  }
}

std::span<std::byte> ExpertMatrices::Slab(const ExpertTensor& tensor, size_t place) const {
  std::vector<std::byte>& slabs = encoded_->find(tensor.tensor->name)->second;
  return std::span(slabs).subspan(*slots_[place] * tensor.bytes(), tensor.bytes());
}

std::span<const std::byte> ExpertMatrices::Rows(const ExpertTensor& tensor, size_t place) const {
  if (IsEncodedHere(place)) return Slab(tensor, place);
  const std::vector<std::byte>& whole = input_.node->whole.find(tensor.tensor->name)->second;
  return std::span(whole).subspan(ids_[place] * tensor.bytes(), tensor.bytes());
}

}  // namespace moepack::runtime
