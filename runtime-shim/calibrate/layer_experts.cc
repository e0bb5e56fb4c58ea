#include "runtime-shim/calibrate/layer_experts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "libshard/base/even_shares.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "runtime-shim/calibrate/encode_matrix.h"
#include "runtime-shim/refit/node_layer.h"
#include "runtime-shim/session/device_model.h"

namespace moepack::runtime {
namespace {

// Tokens whose rows are in memory at once.
constexpr size_t kTokensOfBlock = 4096;

class ExpertsRun {
 public:
  ExpertsRun(const ExpertLayer& layer, bool known, CalibratedOutcome& outcome,
             EncodedTensors& tensors)
      : layer_(layer),
        spec_(layer.model.spec()),
        known_(known),
        outcome_(outcome),
        tensors_(tensors),
        products_(layer.model.executor(), layer.options.jobs) {
    form_ = {spec_.ExpertActivationOf(layer.layer), spec_.weigh_inputs};
  }

  Status Run() {
    const ExpertMatrices::Input input{layer_.model,  layer_.watch, layer_.types,
                                      layer_.source, layer_.node,  layer_.layer};
    SHARD_TRY(ExpertMatrices matrices, ExpertMatrices::Of(input, known_, tensors_));
    matrices_.emplace(std::move(matrices));
    known_ = known_ || !matrices_->HasAnyToEncode();
    SHARD_TRY(own_tokens_, Route(layer_.own, /*encoded=*/true));
    SHARD_TRY(full_tokens_, Route(layer_.full, /*encoded=*/false));
    if (!known_) SHARD_CHECK(MeasureLayer());
    if (!known_ && layer_.exchange != nullptr) SHARD_CHECK(EncodeWithOthers());
    SHARD_CHECK(ClearSums(*layer_.own.sums));
    SHARD_CHECK(ClearSums(*layer_.full.sums));
    for (size_t place = 0; place < own_tokens_.size(); ++place) {
      SHARD_CHECK(CheckInterrupt());
      figures_ = {};
      SHARD_CHECK(RunExpert(place));
      outcome_.Add(figures_);
      if (layer_.node != nullptr && matrices_->IsEncodedHere(place))
        outcome_.experts.push_back({matrices_->ids()[place], figures_});
    }
    return Ok();
  }

 private:
  // ---- Experts that machines share

  // Encodes those of this task, and gets the others: from then on all are known.
  Status EncodeWithOthers() {
    SHARD_TRY(std::optional<EncodedExperts> own, layer_.exchange->Own(layer_.layer));
    if (!own) {
      SHARD_TRY(own, EncodeOwn());
    }
    SHARD_TRY(const std::vector<EncodedExperts> all, layer_.exchange->Exchange(*std::move(own)));
    std::map<uint32_t, CalibratedFigures> figures;
    for (const EncodedExperts& some : all) {
      SHARD_CHECK(PutSlabs(some));
      for (const CalibratedExpert& expert : some.outcome.experts)
        figures.emplace(expert.id, expert.figures);
    }
    if (figures.size() != own_tokens_.size())
      return Error{Code::kMismatch,
                   Cat("calibrated layer ", layer_.layer, ": expected ", own_tokens_.size(),
                       " experts of all tasks, found ", figures.size())};
    for (const auto& [id, one] : figures) outcome_.Add(one);
    known_ = true;
    return Ok();
  }

  Result<EncodedExperts> EncodeOwn() {
    // Experts with more tokens take longer; the factors of an expert's moments take about as long
    // as a token for each input.
    std::vector<uint64_t> costs;
    for (const ExpertTokens& expert : own_tokens_)
      costs.push_back(expert.tokens.size() + layer_.own.inputs->width());
    const TaskNumber task = layer_.exchange->task();
    const std::vector<uint32_t> shares = EvenShares(costs, task.count);
    EncodedExperts own;
    own.outcome.layer = layer_.layer;
    only_encodes_ = true;
    for (uint32_t id = 0; id < shares.size(); ++id) {
      if (shares[id] != task.index) continue;
      SHARD_CHECK(CheckInterrupt());
      figures_ = {};
      SHARD_CHECK(RunExpert(id));
      own.outcome.experts.push_back({id, figures_});
      for (const ExpertTensor& expert : matrices_->tensors()) {
        const std::span<const std::byte> slab = matrices_->Slab(expert, id);
        std::vector<std::byte>& slabs = own.slabs[expert.tensor->name];
        slabs.insert(slabs.end(), slab.begin(), slab.end());
      }
    }
    only_encodes_ = false;
    return own;
  }

  Status PutSlabs(const EncodedExperts& some) {
    const size_t count = some.outcome.experts.size();
    for (const ExpertTensor& expert : matrices_->tensors()) {
      const auto found = some.slabs.find(expert.tensor->name);
      const size_t bytes = expert.bytes();
      const size_t there = found == some.slabs.end() ? 0 : found->second.size();
      if (there != count * bytes)
        return Error{Code::kMismatch,
                     Cat("calibrated tensor ", Quoted(expert.tensor->name), " of a task: expected ",
                         count * bytes, " bytes, found ", there)};
      for (size_t i = 0; i < count; ++i) {
        const uint32_t id = some.outcome.experts[i].id;
        if (id >= own_tokens_.size())
          return Error{Code::kMismatch, Cat("calibrated experts of a task: expected ids below ",
                                            own_tokens_.size(), ", found ", id)};
        const auto slab = std::span(found->second).subspan(i * bytes, bytes);
        std::copy(slab.begin(), slab.end(), matrices_->Slab(expert, id).begin());
      }
    }
    return Ok();
  }

  // The tokens of each expert.
  Result<std::vector<ExpertTokens>> Route(const ExpertStream& stream, bool encoded) {
    layer_.watch.UseEncoded(encoded);
    const LayerWeights& weights = layer_.model.trunk().layers[layer_.layer];
    NodeLayer node;
    node.routing = spec_.layer[layer_.layer].router;
    node.experts.expert_ids = matrices_->ids();
    for (const uint32_t id : matrices_->ids())
      node.scales.push_back(layer_.source.table()[id]->output_scale);
    node.experts.selection_bias = weights.selection_bias;
    Linear router = weights.router;
    NodeMatrices own;
    if (layer_.node != nullptr) {
      SHARD_TRY(own, LoadRouter(layer_.node->experts, layer_.model.executor()));
      router = own.router;
      node.experts.selection_bias = layer_.node->experts.selection_bias;
      if (layer_.node->top_k > 0) node.routing.top_k = layer_.node->top_k;
    }
    std::vector<ExpertTokens> tokens(matrices_->ids().size());
    const RowStore& rows = stream.router->count() > 0 ? *stream.router : *stream.inputs;
    std::vector<float> inputs, logits;
    for (uint64_t first = 0; first < rows.count(); first += kTokensOfBlock) {
      const size_t count = std::min<uint64_t>(kTokensOfBlock, rows.count() - first);
      inputs.resize(count * rows.width());
      logits.resize(count * tokens.size());
      SHARD_CHECK(rows.Read(first, inputs));
      SHARD_CHECK(products_.Project(router, inputs, logits));
      SHARD_TRY(const Routes routes, ChooseExperts(node, logits, jobs()));
      for (size_t i = 0; i < routes.places.size(); ++i) {
        ExpertTokens& expert = tokens[routes.places[i]];
        expert.tokens.push_back(static_cast<uint32_t>(first + i / routes.top_k));
        expert.gates.push_back(routes.gates[i]);
      }
    }
    return tokens;
  }

  static Status ClearSums(RowStore& sums) {
    const std::vector<float> zeros(kTokensOfBlock * sums.width(), 0);
    for (uint64_t first = 0; first < sums.count(); first += kTokensOfBlock) {
      const uint64_t count = std::min<uint64_t>(kTokensOfBlock, sums.count() - first);
      SHARD_CHECK(sums.Write(first, std::span(zeros).first(count * sums.width())));
    }
    return Ok();
  }

  // The moments of the layer's input, towards which those of experts with few tokens are shrunk.
  Status MeasureLayer() {
    const RowStore &inputs = *layer_.own.inputs, &full = *layer_.full.inputs;
    MomentSums sums(inputs.width(), true, products_);
    std::vector<float> own, whole;
    for (uint64_t first = 0; first < inputs.count(); first += kTokensOfBlock) {
      const size_t count = std::min<uint64_t>(kTokensOfBlock, inputs.count() - first);
      own.resize(count * inputs.width());
      whole.resize(own.size());
      SHARD_CHECK(inputs.Read(first, own));
      SHARD_CHECK(full.Read(first, whole));
      SHARD_CHECK(sums.Add(own, whole));
    }
    SHARD_TRY(layer_moments_, sums.Finish());
    return Ok();
  }

  size_t jobs() const { return products_.jobs(); }

  static void ScaleRows(std::span<const float> gates, std::span<float> rows) {
    if (gates.empty()) return;
    const size_t width = rows.size() / gates.size();
    for (size_t i = 0; i < gates.size(); ++i) {
      for (float& value : rows.subspan(i * width, width)) value *= gates[i];
    }
  }

  // Calls work(first, gates) for blocks of tokens, whose inputs are in x_ and, with `full`, full_.
  template <class Work>
  Status ForBlocks(const RowStore& inputs, const RowStore* full, const ExpertTokens& tokens,
                   const Work& work) {
    for (size_t first = 0; first < tokens.tokens.size(); first += kTokensOfBlock) {
      const size_t count = std::min(kTokensOfBlock, tokens.tokens.size() - first);
      const auto some = std::span(tokens.tokens).subspan(first, count);
      x_.resize(count * inputs.width());
      SHARD_CHECK(inputs.Gather(some, x_, jobs()));
      if (full != nullptr) {
        full_.resize(x_.size());
        SHARD_CHECK(full->Gather(some, full_, jobs()));
      }
      SHARD_CHECK(work(first, std::span(tokens.gates).subspan(first, count)));
    }
    return Ok();
  }

  // Whether rows of an expert's tokens from `first` on are held out.
  auto HeldOutFrom(const ExpertTokens& tokens, size_t first) const {
    return [this, &tokens, first](size_t row) -> bool {
      return layer_.held_out[tokens.tokens[first + row]];
    };
  }

  // The moments of the inputs of gate and up. The error of an output counts as much as its gate.
  Result<MomentPair> InputsOf(const ExpertTokens& tokens) {
    const RowStore& inputs = *layer_.own.inputs;
    MomentPairSums sums(inputs.width(), products_);
    const Status done = ForBlocks(inputs, &*layer_.full.inputs, tokens,
                                  [&](size_t first, std::span<const float> gates) {
                                    ScaleRows(gates, x_);
                                    ScaleRows(gates, full_);
                                    return sums.Add(x_, full_, HeldOutFrom(tokens, first));
                                  });
    SHARD_CHECK(done);
    return sums.Finish();
  }

  // The inputs of down without gates, unless these weigh the expert's inputs: [tokens, F].
  Result<std::vector<float>> Activations(const ExpertStream& stream, const RefittedExperts& expert,
                                         const ExpertTokens& tokens) {
    const size_t inner = expert.width;
    SHARD_TRY(const NodeMatrices matrices, LoadExpert(expert, 0, layer_.model.executor()));
    std::vector<float> all(tokens.tokens.size() * inner);
    const Status done =
        ForBlocks(*stream.inputs, nullptr, tokens, [&](size_t first, std::span<const float> gates) {
          const std::vector<float> ones(gates.size(), 1);
          return products_.Activations(matrices.experts[0], form_, x_,
                                       form_.weigh_inputs ? gates : ones,
                                       std::span(all).subspan(first * inner, gates.size() * inner));
        });
    SHARD_CHECK(done);
    return all;
  }

  // The same of the model itself for the tokens of the encoded model. Most of them are among
  // `known`, whose activations are `of_known`.
  Result<std::vector<float>> FullActivations(const RefittedExperts& expert,
                                             const ExpertTokens& tokens, const ExpertTokens& known,
                                             std::span<const float> of_known) {
    // Where gates multiply inputs, they are not those of the model itself.
    if (form_.weigh_inputs) return Activations(layer_.full, expert, tokens);
    const size_t inner = expert.width;
    std::vector<float> all(tokens.tokens.size() * inner);
    ExpertTokens others;
    std::vector<size_t> places;
    size_t next = 0;
    for (size_t i = 0; i < tokens.tokens.size(); ++i) {
      while (next < known.tokens.size() && known.tokens[next] < tokens.tokens[i]) ++next;
      if (next < known.tokens.size() && known.tokens[next] == tokens.tokens[i]) {
        const auto row = of_known.subspan(next * inner, inner);
        std::copy(row.begin(), row.end(), all.begin() + static_cast<ptrdiff_t>(i * inner));
        continue;
      }
      others.tokens.push_back(tokens.tokens[i]);
      others.gates.push_back(tokens.gates[i]);
      places.push_back(i);
    }
    SHARD_TRY(const std::vector<float> rest, Activations(layer_.full, expert, others));
    for (size_t i = 0; i < places.size(); ++i)
      std::copy_n(rest.begin() + static_cast<ptrdiff_t>(i * inner), inner,
                  all.begin() + static_cast<ptrdiff_t>(places[i] * inner));
    return all;
  }

  Status RunExpert(size_t place) {
    const ExpertTokens &own = own_tokens_[place], &full = full_tokens_[place];
    const bool encodes = !known_ && matrices_->IsEncodedHere(place);
    const RefittedExperts source = matrices_->InFull(place);
    RefittedExperts encoded = source;
    if (encodes) {
      SHARD_TRY(MomentPair moments, InputsOf(own));
      const MatrixEncoder encoder(std::move(moments), matrices_->TypesOf(/*down=*/false),
                                  {layer_.options.shrink, &layer_moments_}, layer_.options);
      EncodeMatrices(place, /*down=*/false, encoder, source);
    }
    matrices_->PutEncoded(place, /*down=*/false, encoded);
    SHARD_TRY(const std::vector<float> of_full, Activations(layer_.full, source, full));
    SHARD_TRY(const std::vector<float> of_own, Activations(layer_.own, encoded, own));
    if (encodes) {
      SHARD_TRY(std::vector<float> target, FullActivations(source, own, full, of_full));
      std::vector<float> inputs = of_own;
      if (!form_.weigh_inputs) {
        ScaleRows(own.gates, inputs);
        ScaleRows(own.gates, target);
      }
      MomentPairSums sums(source.width, products_);
      SHARD_CHECK(sums.Add(inputs, target, HeldOutFrom(own, 0)));
      SHARD_TRY(MomentPair moments, sums.Finish());
      const MatrixEncoder encoder(std::move(moments), matrices_->TypesOf(/*down=*/true),
                                  {layer_.options.shrink, nullptr}, layer_.options);
      EncodeMatrices(place, /*down=*/true, encoder, source);
    }
    if (only_encodes_) return Ok();
    matrices_->PutEncoded(place, /*down=*/true, encoded);
    SHARD_CHECK(AddOutputs(source, full, of_full, *layer_.full.sums));
    return AddOutputs(encoded, own, of_own, *layer_.own.sums);
  }

  Status AddOutputs(const RefittedExperts& expert, const ExpertTokens& tokens,
                    std::span<const float> activations, RowStore& sums) {
    const size_t inner = expert.width;
    SHARD_TRY(const NodeMatrices matrices, LoadExpert(expert, 0, layer_.model.executor()));
    std::vector<float> out;
    for (size_t first = 0; first < tokens.tokens.size(); first += kTokensOfBlock) {
      const size_t count = std::min(kTokensOfBlock, tokens.tokens.size() - first);
      out.resize(count * expert.hidden);
      SHARD_CHECK(products_.Apply(matrices.experts[0].down,
                                  activations.subspan(first * inner, count * inner), out));
      if (!form_.weigh_inputs) ScaleRows(std::span(tokens.gates).subspan(first, count), out);
      SHARD_CHECK(sums.ScatterAdd(std::span(tokens.tokens).subspan(first, count), out, jobs()));
    }
    return Ok();
  }

  void EncodeMatrices(size_t place, bool down, const MatrixEncoder& encoder,
                      const RefittedExperts& source) {
    for (const ExpertTensor& expert : matrices_->tensors()) {
      if (expert.down != down) continue;
      const std::vector<float> weights = ExpertMatrices::RowsOf(expert, source);
      const std::vector<std::byte> made =
          encoder.Encode({weights, expert.columns, expert.type}, figures_);
      std::copy(made.begin(), made.end(), matrices_->Slab(expert, place).begin());
    }
  }

  const ExpertLayer& layer_;
  const ModelSpec& spec_;
  bool known_;
  bool only_encodes_ = false;  // and adds nothing to the sums
  CalibratedOutcome& outcome_;
  CalibratedFigures figures_;  // of the current expert
  EncodedTensors& tensors_;
  Products products_;
  ExpertForm form_;
  std::optional<ExpertMatrices> matrices_;
  std::vector<ExpertTokens> own_tokens_, full_tokens_;  // by place
  InputMoments layer_moments_;
  std::vector<float> x_, full_;  // of the current block
};

}  // namespace

Status EncodeExperts(const ExpertLayer& layer, bool known, CalibratedOutcome& outcome,
                     EncodedTensors& tensors) {
  return ExpertsRun(layer, known, outcome, tensors).Run();
}

}  // namespace moepack::runtime
