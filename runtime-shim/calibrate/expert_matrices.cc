#include "runtime-shim/calibrate/expert_matrices.h"

#include <algorithm>
#include <utility>

#include "libshard/base/text/text.h"
#include "runtime-shim/refit/node_experts.h"
#include "runtime-shim/session/device_model.h"

namespace moepack::runtime {
namespace {

// Gate comes first in a fused tensor, as llama.cpp's converter writes it.
constexpr std::pair<const char*, std::vector<float> RefittedExperts::*> kTensorArrays[] = {
    {"ffn_gate_exps.weight", &RefittedExperts::gate},
    {"ffn_gate_up_exps.weight", &RefittedExperts::gate},
    {"ffn_gate_up_exps.weight", &RefittedExperts::up},
    {"ffn_up_exps.weight", &RefittedExperts::up},
    {"ffn_down_exps.weight", &RefittedExperts::down},
};

Error WrongBytes(const std::string& name, uint64_t expected, uint64_t found) {
  return {Code::kMismatch, Cat("calibrated tensor ", Quoted(name), ": expected ", expected,
                               " bytes, found ", found)};
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
    for (const auto& [name, array] : kTensorArrays) {
      if (tensor.name == block + name) expert.arrays.push_back(array);
    }
    expert.down = expert.arrays == std::vector{&RefittedExperts::down};
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

// From the bytes that a matrix on the executor was loaded from; none for no matrix.
std::vector<float> ExpertMatrices::ValuesOf(const Matrix& matrix) const {
  if (!matrix) return {};
  std::vector<float> values(uint64_t{matrix.rows} * matrix.columns);
  const TensorBytes& loaded = input_.watch.LoadedFrom(matrix.buffer);
  matrix.format->decode(loaded.Part(matrix.offset, matrix.rows * matrix.row_bytes()), values);
  return values;
}

RefittedExperts ExpertMatrices::InFull(size_t place) const {
  if (input_.node != nullptr) return TakeExperts(input_.node->experts, {&place, 1});
  const MlpWeights& mlp = *input_.source.table()[ids_[place]];
  RefittedExperts expert;
  expert.expert_ids = {ids_[place]};
  expert.hidden = mlp.first().weight.columns;
  expert.width = mlp.inner();
  expert.gate = ValuesOf(mlp.gate.weight);
  expert.up = ValuesOf(mlp.up.weight);
  expert.down = ValuesOf(mlp.down.weight);
  expert.gate_bias = ValuesOf(mlp.gate.bias);
  expert.up_bias = ValuesOf(mlp.up.bias);
  expert.down_bias = ValuesOf(mlp.down.bias);
  return expert;
}

std::vector<float> ExpertMatrices::RowsOf(const ExpertTensor& tensor,
                                          const RefittedExperts& expert) {
  std::vector<float> rows;
  for (const auto array : tensor.arrays)
    rows.insert(rows.end(), (expert.*array).begin(), (expert.*array).end());
  return rows;
}

void ExpertMatrices::PutEncoded(size_t place, bool down, RefittedExperts& expert) const {
  for (const ExpertTensor& tensor : tensors_) {
    if (tensor.down != down) continue;
    std::span<const std::byte> rows = Rows(tensor, place);
    for (const auto array : tensor.arrays) {
      std::vector<float>& values = expert.*array;
      const uint64_t bytes =
          values.size() / tensor.columns * *tensor.type->BytesFor(tensor.columns);
      tensor.type->decode(rows.first(bytes), values);
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
