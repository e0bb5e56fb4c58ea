#include "runtime-shim/calibrate/layer_experts.h"

#include <algorithm>
#include <array>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "runtime-shim/calibrate/encode_matrix.h"
#include "runtime-shim/refit/node_layer.h"
#include "runtime-shim/session/device_model.h"

namespace moepack::runtime {
namespace {

// Tokens whose rows are in memory at once.
constexpr size_t kTokensOfBlock = 4096;

// A tensor with all experts of the layer.
struct ExpertTensor {
  const HostTensor* tensor = nullptr;
  const quant::Format* type = nullptr;  // to encode
  uint64_t rows = 0, columns = 0;       // of an expert
  bool down = false;
};

class ExpertsRun {
 public:
  ExpertsRun(const ExpertLayer& layer, bool known, CalibratedLayer& outcome,
             EncodedTensors& tensors)
      : layer_(layer),
        spec_(layer.model.spec()),
        known_(known),
        outcome_(outcome),
        tensors_(tensors),
        products_(layer.model.executor(), layer.options.jobs) {
    const float limit = spec_.layer[layer.layer].expert_limit;
    form_ = {limit > 0 ? Activation(Activation::kLimitedSilu, limit) : spec_.expert_activation,
             spec_.weigh_inputs};
  }

  Status Run() {
    SHARD_CHECK(FindTensors());
    layer_.watch.UseEncoded(true);
    SHARD_CHECK(Route());
    if (!known_) SHARD_CHECK(MeasureLayer());
    const std::vector<float> zeros(layer_.rows.sums->width(), 0);
    for (uint64_t token = 0; token < layer_.rows.sums->count(); ++token)
      SHARD_CHECK(layer_.rows.sums->Write(token, zeros));
    for (uint32_t id = 0; id < tokens_.size(); ++id) {
      SHARD_CHECK(CheckInterrupt());
      SHARD_CHECK(RunExpert(id));
    }
    return Ok();
  }

 private:
  Status FindTensors() {
    const std::string block = Cat("blk.", layer_.layer, ".");
    for (const HostTensor& tensor : layer_.source.sets()[0].tensors) {
      const auto type = layer_.types.find(tensor.name);
      if (!tensor.name.starts_with(block) || type == layer_.types.end()) continue;
      const uint64_t columns = tensor.shape.back();
      experts_.push_back({&tensor, type->second, tensor.shape[tensor.shape.size() - 2], columns,
                          tensor.name.starts_with(block + "ffn_down")});
      const uint64_t bytes =
          tensor.shape[0] * experts_.back().rows * *type->second->BytesFor(columns);
      std::vector<std::byte>& whole = tensors_[tensor.name];
      if (known_ && whole.size() != bytes)
        return Error{Code::kMismatch, Cat("calibrated tensor ", Quoted(tensor.name), ": expected ",
                                          bytes, " bytes, found ", whole.size())};
      whole.resize(bytes);
    }
    return Ok();
  }

  // The tokens of each expert in the encoded model.
  Status Route() {
    const LayerWeights& weights = layer_.model.trunk().layers[layer_.layer];
    NodeLayer node;
    node.routing = spec_.layer[layer_.layer].router;
    const LayerExpertTable& table = layer_.source.table();
    tokens_.resize(table.size());
    for (uint32_t id = 0; id < table.size(); ++id) {
      node.experts.expert_ids.push_back(id);
      node.scales.push_back(table[id]->output_scale);
    }
    node.experts.selection_bias = weights.selection_bias;
    const RowStore& rows =
        layer_.rows.router->count() > 0 ? *layer_.rows.router : *layer_.rows.inputs;
    std::vector<float> inputs, logits;
    for (uint64_t first = 0; first < rows.count(); first += kTokensOfBlock) {
      const size_t count = std::min<uint64_t>(kTokensOfBlock, rows.count() - first);
      inputs.resize(count * rows.width());
      logits.resize(count * table.size());
      SHARD_CHECK(rows.Read(first, inputs));
      SHARD_CHECK(products_.Project(weights.router, inputs, logits));
      SHARD_TRY(const Routes routes, ChooseExperts(node, logits, products_.jobs()));
      for (size_t i = 0; i < routes.places.size(); ++i) {
        ExpertTokens& expert = tokens_[routes.places[i]];
        expert.tokens.push_back(static_cast<uint32_t>(first + i / routes.top_k));
        expert.gates.push_back(routes.gates[i]);
      }
    }
    return Ok();
  }

  // The moments of the layer's input, towards which those of experts with few tokens are shrunk.
  Status MeasureLayer() {
    const RowStore &inputs = *layer_.rows.inputs, &full = *layer_.rows.full;
    MomentSums sums(inputs.width(), true, products_.jobs());
    std::vector<float> own, whole;
    for (uint64_t first = 0; first < inputs.count(); first += kTokensOfBlock) {
      const size_t count = std::min<uint64_t>(kTokensOfBlock, inputs.count() - first);
      own.resize(count * inputs.width());
      whole.resize(own.size());
      SHARD_CHECK(inputs.Read(first, own));
      SHARD_CHECK(full.Read(first, whole));
      sums.Add(own, whole);
    }
    layer_moments_ = sums.Finish();
    return Ok();
  }

  // An expert's tokens that are learned from, or held out.
  ExpertTokens Some(const ExpertTokens& all, bool held_out) const {
    ExpertTokens some;
    for (size_t i = 0; i < all.tokens.size(); ++i) {
      if (layer_.held_out[all.tokens[i]] != held_out) continue;
      some.tokens.push_back(all.tokens[i]);
      some.gates.push_back(all.gates[i]);
    }
    return some;
  }

  // Calls work(tokens, gates, x, x_full) for blocks of tokens.
  template <class Work>
  Status ForBlocks(const ExpertTokens& tokens, bool full, const Work& work) {
    const size_t width = layer_.rows.inputs->width();
    for (size_t first = 0; first < tokens.tokens.size(); first += kTokensOfBlock) {
      const size_t count = std::min(kTokensOfBlock, tokens.tokens.size() - first);
      const auto some = std::span(tokens.tokens).subspan(first, count);
      x_.resize(count * width);
      SHARD_CHECK(layer_.rows.inputs->Gather(some, x_, products_.jobs()));
      full_.resize(full ? x_.size() : 0);
      if (full) SHARD_CHECK(layer_.rows.full->Gather(some, full_, products_.jobs()));
      SHARD_CHECK(work(some, std::span(tokens.gates).subspan(first, count)));
    }
    return Ok();
  }

  static void ScaleRows(std::span<const float> gates, std::span<float> rows) {
    const size_t width = rows.size() / gates.size();
    for (size_t i = 0; i < gates.size(); ++i) {
      for (float& value : rows.subspan(i * width, width)) value *= gates[i];
    }
  }

  // The moments of the inputs of gate and up. The error of an output counts as much as its gate.
  Result<InputMoments> InputsOf(const ExpertTokens& tokens) {
    MomentSums sums(layer_.rows.inputs->width(), true, products_.jobs());
    const Status done = ForBlocks(tokens, true, [&](auto, std::span<const float> gates) -> Status {
      ScaleRows(gates, x_);
      ScaleRows(gates, full_);
      sums.Add(x_, full_);
      return Ok();
    });
    SHARD_CHECK(done);
    return sums.Finish();
  }

  // The moments of the inputs of down, which include the gates.
  Result<InputMoments> ActivationsOf(const ExpertTokens& tokens, const MlpWeights& source,
                                     const MlpWeights& encoded) {
    const size_t inner = source.inner();
    MomentSums sums(inner, true, products_.jobs());
    std::vector<float> own, full;
    const Status done = ForBlocks(tokens, true, [&](auto, std::span<const float> gates) -> Status {
      own.resize(gates.size() * inner);
      full.resize(own.size());
      SHARD_CHECK(products_.Activations(encoded, form_, x_, gates, own));
      SHARD_CHECK(products_.Activations(source, form_, full_, gates, full));
      sums.Add(own, full);
      return Ok();
    });
    SHARD_CHECK(done);
    return sums.Finish();
  }

  Status RunExpert(uint32_t id) {
    const MlpWeights& source = *layer_.source.table()[id];
    MlpWeights encoded = source;
    slabs_.clear();
    const ExpertTokens &all = tokens_[id], fit = Some(all, false), fold = Some(all, true);
    if (!known_) {
      SHARD_TRY(InputMoments of_fit, InputsOf(fit));
      SHARD_TRY(InputMoments of_fold, InputsOf(fold));
      const MatrixEncoder encoder({std::move(of_fit), std::move(of_fold)},
                                  {layer_.options.shrink, &layer_moments_}, layer_.options);
      EncodeMatrices(id, /*down=*/false, encoder);
    }
    SHARD_CHECK(Replace(id, encoded));
    if (!known_) {
      SHARD_TRY(InputMoments of_fit, ActivationsOf(fit, source, encoded));
      SHARD_TRY(InputMoments of_fold, ActivationsOf(fold, source, encoded));
      const MatrixEncoder encoder({std::move(of_fit), std::move(of_fold)},
                                  {layer_.options.shrink, nullptr}, layer_.options);
      EncodeMatrices(id, /*down=*/true, encoder);
      encoded = source;
      SHARD_CHECK(Replace(id, encoded));
    }
    return AddOutputs(all, encoded);
  }

  std::span<std::byte> SlabOf(const ExpertTensor& expert, uint32_t id) {
    std::vector<std::byte>& whole = tensors_.find(expert.tensor->name)->second;
    const size_t bytes = expert.rows * *expert.type->BytesFor(expert.columns);
    return std::span(whole).subspan(id * bytes, bytes);
  }

  void EncodeMatrices(uint32_t id, bool down, const MatrixEncoder& encoder) {
    for (const ExpertTensor& expert : experts_) {
      if (expert.down != down) continue;
      const quant::Format& stored = *expert.tensor->format;
      const uint64_t bytes = expert.rows * *stored.BytesFor(expert.columns);
      std::vector<float> weights(expert.rows * expert.columns);
      stored.decode(expert.tensor->bytes.subspan(id * bytes, bytes), weights);
      const std::vector<std::byte> made =
          encoder.Encode({weights, expert.columns, expert.type}, outcome_);
      std::copy(made.begin(), made.end(), SlabOf(expert, id).begin());
    }
  }

  // Puts the encoded matrices in the place of the source's.
  Status Replace(uint32_t id, MlpWeights& mlp) {
    slabs_.clear();
    for (const ExpertTensor& expert : experts_) {
      SHARD_TRY(BufferPtr buffer, layer_.model.executor().Load(SlabOf(expert, id)));
      const std::byte* const first = expert.tensor->bytes.data();
      const uint64_t row_bytes = *expert.tensor->format->BytesFor(expert.columns);
      for (Linear* linear : {&mlp.gate, &mlp.up, &mlp.down}) {
        Matrix& matrix = linear->weight;
        if (!matrix || layer_.watch.LoadedFrom(*matrix.buffer) != first) continue;
        const uint64_t row = matrix.offset / row_bytes - id * expert.rows;
        matrix = {buffer.get(), row * *expert.type->BytesFor(expert.columns), expert.type,
                  matrix.rows, matrix.columns};
      }
      slabs_.push_back(std::move(buffer));
    }
    return Ok();
  }

  Status AddOutputs(const ExpertTokens& tokens, const MlpWeights& encoded) {
    std::vector<float> out;
    return ForBlocks(tokens, false, [&](auto some, std::span<const float> gates) -> Status {
      out.resize(gates.size() * encoded.down.weight.rows);
      if (form_.weigh_inputs) ScaleRows(gates, x_);
      SHARD_CHECK(products_.Output(encoded, {form_.activation, false}, x_, out));
      if (!form_.weigh_inputs) ScaleRows(gates, out);
      return layer_.rows.sums->ScatterAdd(some, out, products_.jobs());
    });
  }

  const ExpertLayer& layer_;
  const ModelSpec& spec_;
  bool known_;
  CalibratedLayer& outcome_;
  EncodedTensors& tensors_;
  Products products_;
  ExpertForm form_;
  std::vector<ExpertTensor> experts_;
  std::vector<ExpertTokens> tokens_;  // by expert
  InputMoments layer_moments_;
  std::vector<BufferPtr> slabs_;  // of the current expert
  std::vector<float> x_, full_;   // of the current block
};

}  // namespace

Status EncodeExperts(const ExpertLayer& layer, bool known, CalibratedLayer& outcome,
                     EncodedTensors& tensors) {
  return ExpertsRun(layer, known, outcome, tensors).Run();
}

}  // namespace moepack::runtime
