#include "runtime-shim/refit/node_experts.h"

#include <algorithm>
#include <utility>

#include "libshard/base/files/mapped_file.h"
#include "libshard/base/text/text.h"
#include "quant/format.h"

namespace moepack::runtime {
namespace {

// An expert's place: the set that holds it, and its index along the expert axis there.
struct ExpertPlace {
  const ExpertSet* set = nullptr;
  uint64_t index = 0;
};

Result<ExpertPlace> FindExpert(const Weights& weights, std::span<const ExpertSet> sets,
                               uint32_t layer, uint32_t id) {
  for (const ExpertSet& set : sets) {
    const ExpertIds& ids = moepack::IdsOf(set.experts_by_layer, layer);
    const auto found = std::find(ids.begin(), ids.end(), id);
    if (found != ids.end()) return ExpertPlace{&set, static_cast<uint64_t>(found - ids.begin())};
  }
  return Error{Code::kNotFound, Cat(weights.path, ": layer ", layer, ": expert ", id,
                                    ": expected to be loaded, found in no part")};
}

const HostTensor* FindTensor(std::span<const HostTensor> tensors, const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const HostTensor& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

// Part `index` of the tensor, of as many values each.
std::vector<float> DecodePart(const HostTensor& tensor, uint64_t values, uint64_t index) {
  const uint64_t bytes = *tensor.format->BytesFor(values);
  std::vector<float> decoded(values);
  tensor.format->decode(tensor.bytes.Part(index * bytes, bytes), decoded);
  return decoded;
}

// Entry `index` along the slowest axis.
std::vector<float> DecodeEntry(const HostTensor& tensor, uint64_t index) {
  uint64_t values = 1;
  for (size_t axis = 1; axis < tensor.shape.size(); ++axis) values *= tensor.shape[axis];
  return DecodePart(tensor, values, index);
}

void Append(std::span<const float> values, std::vector<float>& to) {
  to.insert(to.end(), values.begin(), values.end());
}

class ExpertReader {
 public:
  ExpertReader(const ExpertPlace& place, uint32_t layer, RefittedExperts& out)
      : place_(place), layer_(layer), out_(out) {}

  void Read() {
    if (const HostTensor* fused = Find("ffn_gate_up_exps.weight")) {
      // Gate comes first in a fused tensor, as llama.cpp's converter writes it.
      out_.width = fused->shape[1] / 2;
      out_.hidden = fused->shape[2];
      Halves(*fused, out_.gate, out_.up);
      if (const HostTensor* bias = Find("ffn_gate_up_exps.bias"))
        Halves(*bias, out_.gate_bias, out_.up_bias);
    } else {
      Take("ffn_gate_exps.weight", out_.gate);
      const HostTensor* up = Take("ffn_up_exps.weight", out_.up);
      if (up != nullptr) {
        out_.width = up->shape[1];
        out_.hidden = up->shape[2];
      }
      Take("ffn_gate_exps.bias", out_.gate_bias);
      Take("ffn_up_exps.bias", out_.up_bias);
    }
    Take("ffn_down_exps.weight", out_.down);
    Take("ffn_down_exps.bias", out_.down_bias);
  }

 private:
  const HostTensor* Find(const char* name) const {
    return FindTensor(place_.set->tensors, Cat("blk.", layer_, ".", name));
  }
  const HostTensor* Take(const char* name, std::vector<float>& to) const {
    const HostTensor* const tensor = Find(name);
    if (tensor != nullptr) Append(DecodeEntry(*tensor, place_.index), to);
    return tensor;
  }
  void Halves(const HostTensor& tensor, std::vector<float>& first,
              std::vector<float>& second) const {
    const std::vector<float> both = DecodeEntry(tensor, place_.index);
    Append(std::span(both).first(both.size() / 2), first);
    Append(std::span(both).subspan(both.size() / 2), second);
  }

  const ExpertPlace& place_;
  uint32_t layer_;
  RefittedExperts& out_;
};

// Rows of an expert's gate and up, which may be halves of one tensor.
class NeuronReader {
 public:
  NeuronReader(const ExpertPlace& place, uint32_t layer, std::span<const uint32_t> neurons)
      : place_(place), layer_(layer), neurons_(neurons) {}

  void Read(RefittedExperts& out) const {
    if (const HostTensor* fused = Find("ffn_gate_up_exps.weight")) {
      out.hidden = fused->shape[2];
      Take(fused, out.hidden, 2, 0, out.gate);
      Take(fused, out.hidden, 2, 1, out.up);
      const HostTensor* const bias = Find("ffn_gate_up_exps.bias");
      Take(bias, 1, 2, 0, out.gate_bias);
      Take(bias, 1, 2, 1, out.up_bias);
      return;
    }
    const HostTensor* const up = Find("ffn_up_exps.weight");
    if (up != nullptr) out.hidden = up->shape[2];
    Take(up, out.hidden, 1, 0, out.up);
    Take(Find("ffn_gate_exps.weight"), out.hidden, 1, 0, out.gate);
    Take(Find("ffn_up_exps.bias"), 1, 1, 0, out.up_bias);
    Take(Find("ffn_gate_exps.bias"), 1, 1, 0, out.gate_bias);
  }

 private:
  const HostTensor* Find(const char* name) const {
    return FindTensor(place_.set->tensors, Cat("blk.", layer_, ".", name));
  }
  // Rows of `columns` values from part `part` of `parts` of the expert's rows.
  void Take(const HostTensor* tensor, uint64_t columns, uint64_t parts, uint64_t part,
            std::vector<float>& to) const {
    if (tensor == nullptr) return;
    const uint64_t rows = tensor->shape[1];
    for (const uint32_t neuron : neurons_)
      Append(DecodePart(*tensor, columns, place_.index * rows + part * (rows / parts) + neuron),
             to);
  }

  const ExpertPlace& place_;
  uint32_t layer_;
  std::span<const uint32_t> neurons_;
};

// Takes row `id` of a tensor of the trunk, or its value of a vector.
void TakeRow(const Weights& weights, const std::string& name, uint32_t id, std::vector<float>& to) {
  const HostTensor* const tensor = weights.FindTrunk(name);
  if (tensor == nullptr) return;
  const std::vector<float> row =
      tensor->shape.size() > 1
          ? DecodeEntry(*tensor, id)
          : std::vector<float>{DecodeEntry(
                {tensor->name, tensor->format, {1, tensor->shape[0]}, tensor->bytes}, 0)[id]};
  Append(row, to);
}

size_t ValuesOfOne(const RefittedArray& array, const RefittedExperts& experts) {
  size_t values = 1;
  for (const uint64_t dimension : array.ShapeOf(1, experts)) values *= dimension;
  return values;
}

// Loads stacked values as matrices [rows, columns], one per expert.
class MatrixLoader {
 public:
  MatrixLoader(Executor& executor, NodeMatrices& out) : executor_(executor), out_(out) {}

  // Empty for no values.
  Result<Matrix> Load(std::span<const float> values, uint64_t rows, uint64_t columns) {
    if (values.empty()) return Matrix{};
    SHARD_TRY(BufferPtr buffer, executor_.Load(std::as_bytes(values)));
    out_.buffers.push_back(std::move(buffer));
    return Matrix{out_.buffers.back().get(), 0, quant::FindFormat("f32"),
                  static_cast<uint32_t>(rows), static_cast<uint32_t>(columns)};
  }
  Result<Linear> LoadStacked(std::span<const float> weights, std::span<const float> bias,
                             uint64_t count, uint64_t rows, uint64_t columns) {
    Linear stacked;
    SHARD_TRY(stacked.weight, Load(weights, count * rows, columns));
    SHARD_TRY(stacked.bias, Load(bias, count, rows));
    return stacked;
  }
  Status LoadRouter(const RefittedExperts& values) {
    const uint64_t count = values.expert_ids.size();
    SHARD_TRY(out_.router.weight, Load(values.router, count, values.router_width));
    SHARD_TRY(out_.router.bias, Load(values.router_bias, 1, count));
    return Ok();
  }

 private:
  Executor& executor_;
  NodeMatrices& out_;
};

Linear PartOf(const Linear& stacked, uint32_t index, uint64_t rows) {
  if (!stacked.weight) return {};
  const auto count = static_cast<uint32_t>(rows);
  Linear one{stacked.weight.Slice(index * count, count), {}};
  if (stacked.bias) one.bias = stacked.bias.Slice(index, 1);
  return one;
}

// A store may be corrupt, or another's.
Status CheckSizes(const RefitStore& store, const RefittedExperts& values,
                  const RefittedExperts& node) {
  const bool known = Difference(values.expert_ids, node.expert_ids).empty();
  if (known && values.hidden == node.hidden && values.width == node.width &&
      values.router_width == node.router_width)
    return Ok();
  const auto show = [](const RefittedExperts& one) {
    return Cat(one.width, " by ", one.hidden, ", routers of ", one.router_width);
  };
  return Error{
      Code::kMismatch,
      Cat((store.directory() / RefittedFileName(node.layer, node.group)).string(),
          ": experts: expected some of ", Quoted(FormatIds(node.expert_ids)), ", ", show(node),
          ", found ", Quoted(FormatIds(values.expert_ids)), ", ", show(values))};
}

}  // namespace

Result<RefittedExperts> ReadSourceExperts(const Weights& weights, std::span<const ExpertSet> sets,
                                          uint32_t layer, const ExpertIds& ids) {
  RefittedExperts out;
  out.layer = layer;
  out.expert_ids = ids;
  for (const uint32_t id : ids) {
    SHARD_TRY(const ExpertPlace place, FindExpert(weights, sets, layer, id));
    ExpertReader(place, layer, out).Read();
    const std::string block = Cat("blk.", layer, ".");
    TakeRow(weights, block + "ffn_gate_inp.weight", id, out.router);
    TakeRow(weights, block + "ffn_gate_inp.bias", id, out.router_bias);
    for (const char* bias : {"exp_probs_b.bias", "exp_probs_b"})
      TakeRow(weights, block + bias, id, out.selection_bias);
  }
  if (!ids.empty()) out.router_width = out.router.size() / ids.size();
  SHARD_CHECK(CheckMappedFiles());
  return out;
}

Result<RefittedExperts> ReadNeurons(const Weights& weights, std::span<const ExpertSet> sets,
                                    uint32_t layer, uint32_t id,
                                    std::span<const uint32_t> neurons) {
  SHARD_TRY(const ExpertPlace place, FindExpert(weights, sets, layer, id));
  RefittedExperts out;
  out.layer = layer;
  out.expert_ids = {id};
  out.width = neurons.size();
  NeuronReader(place, layer, neurons).Read(out);
  SHARD_CHECK(CheckMappedFiles());
  return out;
}

RefittedExperts TakeExperts(const RefittedExperts& from, std::span<const size_t> places) {
  RefittedExperts out;
  out.layer = from.layer;
  out.group = from.group;
  out.hidden = from.hidden;
  out.width = from.width;
  out.router_width = from.router_width;
  for (const size_t place : places) out.expert_ids.push_back(from.expert_ids[place]);
  for (const RefittedArray& array : RefittedArrays()) {
    const std::vector<float>& values = from.*array.values;
    if (values.empty()) continue;
    const size_t one = ValuesOfOne(array, from);
    for (const size_t place : places)
      Append(std::span(values).subspan(place * one, one), out.*array.values);
  }
  return out;
}

void PutExperts(const RefittedExperts& from, RefittedExperts& to) {
  for (size_t index = 0; index < from.expert_ids.size(); ++index) {
    const auto found =
        std::find(to.expert_ids.begin(), to.expert_ids.end(), from.expert_ids[index]);
    const auto place = static_cast<size_t>(found - to.expert_ids.begin());
    for (const RefittedArray& array : RefittedArrays()) {
      const std::vector<float>& values = from.*array.values;
      std::vector<float>& target = to.*array.values;
      if (values.empty() || target.empty()) continue;
      const size_t one = ValuesOfOne(array, from);
      std::copy_n(values.begin() + static_cast<ptrdiff_t>(index * one), one,
                  target.begin() + static_cast<ptrdiff_t>(place * one));
    }
  }
}

Status PutStored(const RefitStore& store, RefittedExperts& node) {
  SHARD_TRY(const std::optional<RefittedExperts> values, store.Read(node.layer, node.group));
  if (!values) return Ok();
  SHARD_CHECK(CheckSizes(store, *values, node));
  PutExperts(*values, node);
  return Ok();
}

Result<NodeMatrices> LoadMatrices(const RefittedExperts& values, Executor& executor) {
  NodeMatrices out;
  MatrixLoader loader(executor, out);
  const uint64_t count = values.expert_ids.size(), hidden = values.hidden, width = values.width;
  SHARD_TRY(const Linear gate,
            loader.LoadStacked(values.gate, values.gate_bias, count, width, hidden));
  SHARD_TRY(const Linear up, loader.LoadStacked(values.up, values.up_bias, count, width, hidden));
  SHARD_TRY(const Linear down,
            loader.LoadStacked(values.down, values.down_bias, count, hidden, width));
  SHARD_CHECK(loader.LoadRouter(values));
  for (uint32_t index = 0; index < count; ++index)
    out.experts.push_back(
        {PartOf(gate, index, width), PartOf(up, index, width), PartOf(down, index, hidden)});
  return out;
}

Result<NodeMatrices> LoadExpert(const RefittedExperts& values, size_t place, Executor& executor) {
  NodeMatrices out;
  MatrixLoader loader(executor, out);
  const uint64_t hidden = values.hidden, width = values.width;
  const auto own = [&](const std::vector<float>& all, uint64_t one) {
    return all.empty() ? std::span<const float>() : std::span(all).subspan(place * one, one);
  };
  MlpWeights& expert = out.experts.emplace_back();
  SHARD_TRY(expert.gate, loader.LoadStacked(own(values.gate, width * hidden),
                                            own(values.gate_bias, width), 1, width, hidden));
  SHARD_TRY(expert.up, loader.LoadStacked(own(values.up, width * hidden),
                                          own(values.up_bias, width), 1, width, hidden));
  SHARD_TRY(expert.down, loader.LoadStacked(own(values.down, hidden * width),
                                            own(values.down_bias, hidden), 1, hidden, width));
  return out;
}

Result<NodeMatrices> LoadRouter(const RefittedExperts& values, Executor& executor) {
  NodeMatrices out;
  SHARD_CHECK(MatrixLoader(executor, out).LoadRouter(values));
  return out;
}

}  // namespace moepack::runtime
