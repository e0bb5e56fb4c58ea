#include "runtime-shim/model/layer_weights.h"

#include <algorithm>

#include "libshard/base/text/text.h"
#include "runtime-shim/model/tensor_slots.h"

namespace moepack::runtime {
namespace {

// Returns values [first, first + columns) of an F32 vector; an empty vector stays empty.
Matrix ValuesOf(const Matrix& vector, uint32_t first, uint32_t columns) {
  if (!vector) return {};
  Matrix part = vector;
  part.offset += uint64_t{first} * sizeof(float);
  part.columns = columns;
  return part;
}

// Hy3's has no suffix.
std::vector<float> SelectionBias(TensorSlots& slots, const std::string& name,
                                 uint32_t expert_count) {
  return slots.Values(slots.Has(name) ? name : name + ".bias", expert_count);
}

class TrunkBuilder {
 public:
  TrunkBuilder(const Weights& weights, const ModelSpec& spec, Executor& executor)
      : weights_(weights), spec_(spec), slots_(weights.path, weights.trunk, executor) {}

  Result<DeviceTrunk> Build() {
    DeviceTrunk trunk;
    trunk.embedding = slots_.Required("token_embd.weight", {0, spec_.width});
    trunk.output = slots_.Optional("output.weight", {trunk.embedding.rows, spec_.width});
    if (!trunk.output) trunk.output = trunk.embedding;
    trunk.output_bias = slots_.OptionalVector("output.bias", trunk.embedding.rows);
    if (!spec_.streams.gated()) trunk.output_norm = Norm(spec_.last_norm);
    vocabulary_ = trunk.embedding.rows;
    if (spec_.streams.count > 0) trunk.streams = TakeHeadStreams(slots_, spec_);
    if (spec_.ngrams.size > 0) trunk.ngram_table = TakeNgramTable(slots_, spec_.ngrams);
    trunk.streams.score = Score("output_res_score.weight");
    trunk.rope_factors =
        slots_.Values("rope_freqs.weight", std::max(spec_.rope.dims, spec_.local_rope.dims) / 2);
    trunk.rope_long = slots_.Values("rope_factors_long.weight", spec_.rope.dims / 2);
    trunk.rope_short = slots_.Values("rope_factors_short.weight", spec_.rope.dims / 2);
    for (uint32_t layer = 0; layer < spec_.layers && !slots_.failed(); ++layer)
      trunk.layers.push_back(Layer(layer));
    SHARD_CHECK(slots_.Finish());
    trunk.bytes = slots_.bytes();
    trunk.buffers = slots_.TakeBuffers();
    return trunk;
  }

 private:
  std::string Name(const char* suffix) const { return Cat("blk.", layer_, ".", suffix); }

  Linear Norm(const std::string& name) {
    return {slots_.RequiredVector(name + ".weight", spec_.width),
            slots_.OptionalVector(name + ".bias", spec_.width)};
  }

  // Of residual attention.
  Matrix Score(const std::string& name) {
    return spec_.residual_block > 0 ? slots_.RequiredVector(name, spec_.width) : Matrix();
  }

  Matrix WidthNorm(const char* name) { return slots_.RequiredVector(Name(name), spec_.width); }

  Linear Weighted(const char* name, MatrixShape shape) {
    Linear linear;
    linear.weight = slots_.Required(Name(name) + ".weight", shape);
    linear.bias = slots_.OptionalVector(Name(name) + ".bias", linear.weight.rows);
    return linear;
  }

  // The rows of a layer's projections.
  struct HeadRows {
    uint64_t query = 0, key = 0, value = 0, output = 0;
  };
  HeadRows RowsOf(const LayerSpec& layer) const {
    const uint64_t query = uint64_t{layer.heads} * layer.key_width;
    return {spec_.gated_queries ? 2 * query : query, uint64_t{layer.key_heads} * layer.key_width,
            uint64_t{layer.key_heads} * layer.value_width,
            uint64_t{layer.heads} * layer.value_width};
  }

  void FusedProjections(const HeadRows& rows, AttentionWeights& attention) {
    const Linear all = Weighted("attn_qkv", {rows.query + rows.key + rows.value, spec_.width});
    if (slots_.failed()) return;  // the rows, and so each part of them, fit in 32 bits
    const auto query = static_cast<uint32_t>(rows.query), key = static_cast<uint32_t>(rows.key),
               value = static_cast<uint32_t>(rows.value);
    attention.query = {all.weight.Slice(0, query), ValuesOf(all.bias, 0, query)};
    attention.key = {all.weight.Slice(query, key), ValuesOf(all.bias, query, key)};
    attention.value = {all.weight.Slice(query + key, value),
                       ValuesOf(all.bias, query + key, value)};
  }

  void HeadGate(uint64_t values, AttentionWeights& attention) {
    const uint32_t heads = spec_.layer[layer_].heads;
    const std::string name = Name("attn_gate.weight");
    if (!spec_.softplus_gates) {
      attention.head_gate = slots_.Optional(name, {heads, spec_.width});
      return;
    }
    attention.head_gate = slots_.Required(name, {0, spec_.width});
    const uint32_t rows = attention.head_gate.rows;
    if (slots_.failed() || rows == heads || rows == values) return;
    slots_.Refuse(name, Cat(heads, " rows (heads) or ", values, " (values)"), Cat(rows));
  }

  void PlainProjections(AttentionWeights& attention) {
    const LayerSpec& layer = spec_.layer[layer_];
    const HeadRows rows = RowsOf(layer);
    if (slots_.Has(Name("attn_qkv.weight"))) {
      FusedProjections(rows, attention);
    } else {
      attention.query = Weighted("attn_q", {rows.query, spec_.width});
      attention.key = Weighted("attn_k", {rows.key, spec_.width});
      const bool keys = spec_.norm_values && !slots_.Has(Name("attn_v.weight"));
      if (!keys) attention.value = Weighted("attn_v", {rows.value, spec_.width});
    }
    const bool whole = spec_.norm_whole_projection;
    attention.query_norm =
        slots_.OptionalVector(Name("attn_q_norm.weight"), whole ? rows.query : layer.key_width);
    attention.key_norm =
        slots_.OptionalVector(Name("attn_k_norm.weight"), whole ? rows.key : layer.key_width);
    if (spec_.gated_attention)
      attention.output_gate = slots_.Required(Name("attn_gate.weight"), {rows.output, spec_.width});
    else
      HeadGate(rows.output, attention);
    attention.output = Weighted("attn_output", {spec_.width, rows.output});
    if (layer.picks_blocks) BlockIndexer(attention);
  }

  void BlockIndexer(AttentionWeights& attention) {
    const BlockShape& shape = spec_.blocks;
    const uint64_t queries = uint64_t{shape.heads} * shape.width;
    attention.index_query = slots_.Required(Name("indexer.q_proj.weight"), {queries, spec_.width});
    attention.index_key =
        slots_.Required(Name("indexer.k_proj.weight"), {shape.width, spec_.width});
    attention.index_query_norm = slots_.RequiredVector(Name("indexer.q_norm.weight"), shape.width);
    if (shape.pooled)
      attention.pooled_norm = Constants("indexer.k_norm.weight", {1, shape.width});
    else
      attention.index_key_norm = slots_.RequiredVector(Name("indexer.k_norm.weight"), shape.width);
  }

  std::vector<float> Constants(const char* name, MatrixShape shape) {
    const uint64_t count = shape.rows * shape.columns;
    if (!slots_.Has(Name(name))) slots_.Refuse(Name(name), Cat("a tensor of ", count), "none");
    return slots_.Values(Name(name), shape);
  }

  void DeltaProjections(DeltaWeights& delta) {
    const DeltaShape& shape = spec_.delta;
    delta.mixed = slots_.Required(Name("attn_qkv.weight"), {shape.channels(), spec_.width});
    delta.gate = slots_.Required(Name("attn_gate.weight"), {shape.values(), spec_.width});
    if (slots_.Has(Name("ssm_ba.weight"))) {
      delta.strengths =
          slots_.Required(Name("ssm_ba.weight"), {2 * shape.value_heads, spec_.width});
    } else {
      delta.strengths = slots_.Required(Name("ssm_beta.weight"), {shape.value_heads, spec_.width});
      delta.rates = slots_.Required(Name("ssm_alpha.weight"), {shape.value_heads, spec_.width});
    }
    delta.output = slots_.Required(Name("ssm_out.weight"), {spec_.width, shape.values()});
    delta.constants.kernel =
        slots_.Values(Name("ssm_conv1d.weight"), {shape.channels(), shape.kernel});
    delta.constants.bias = Constants("ssm_dt.bias", {1, shape.value_heads});
    delta.constants.decay = Constants("ssm_a", {1, shape.value_heads});
    delta.constants.norm = Constants("ssm_norm.weight", {1, shape.width});
    delta.constants.eps = spec_.norm_eps;
  }

  void Kda(LayerWeights& layer) {
    const KdaShape& shape = spec_.kda;
    const uint64_t values = shape.values();
    const auto projection = [&](const char* name, uint64_t rows) {
      return slots_.Required(Name(name), {rows, spec_.width});
    };
    KdaWeights& kda = layer.kda;
    kda.query = projection("attn_q.weight", values);
    kda.key = projection("attn_k.weight", values);
    kda.value = projection("attn_v.weight", values);
    if (slots_.Has(Name("ssm_f_b.weight"))) {
      kda.decay_down = projection("ssm_f_a.weight", shape.width);
      kda.decay = slots_.Required(Name("ssm_f_b.weight"), {values, shape.width});
    } else {
      kda.decay = projection("ssm_f_a.weight", values);
    }
    const bool whole = slots_.Has(Name("ssm_g.weight"));
    kda.gate = projection(whole ? "ssm_g.weight" : "ssm_g_a.weight", values);
    kda.strength = projection("ssm_beta.weight", shape.heads);
    layer.attention.output = Weighted("attn_output", {spec_.width, values});
    KdaConstants& constants = kda.constants;
    for (const char* name : {"ssm_conv1d_q.weight", "ssm_conv1d_k.weight", "ssm_conv1d_v.weight"}) {
      const std::vector<float> kernel = Constants(name, {values, shape.kernel});
      constants.kernel.insert(constants.kernel.end(), kernel.begin(), kernel.end());
    }
    constants.bias = Constants("ssm_dt.bias", {1, values});
    constants.rate = KdaRates();
    constants.norm = Constants("ssm_norm.weight", {1, shape.width});
    constants.eps = spec_.norm_eps;
  }

  std::vector<float> KdaRates() {
    const uint32_t heads = spec_.kda.heads;
    if (!spec_.kda.negative_rates) return Constants("ssm_a", {heads, 1});
    std::vector<float> rates = Constants("ssm_a", {1, heads});
    for (float& rate : rates) rate = -rate;
    return rates;
  }

  void Recurrence(LayerWeights& layer) {
    if (spec_.kda.heads > 0) return Kda(layer);
    if (spec_.convolution.kernel > 0) return Convolution(layer.convolution);
    spec_.mamba.heads > 0 ? Mamba(layer.mamba) : DeltaProjections(layer.delta);
  }

  void Mamba(MambaWeights& mamba) {
    const MambaShape& shape = spec_.mamba;
    mamba.in = slots_.Required(Name("ssm_in.weight"), {shape.projected(), spec_.width});
    mamba.out = slots_.Required(Name("ssm_out.weight"), {spec_.width, shape.inner()});
    MambaConstants& constants = mamba.constants;
    constants.kernel = Constants("ssm_conv1d.weight", {shape.channels(), shape.kernel});
    constants.kernel_bias = slots_.Values(Name("ssm_conv1d.bias"), shape.channels());
    constants.step_bias = Constants("ssm_dt.bias", {1, shape.heads});
    constants.decay = Constants("ssm_a", {shape.heads, 1});
    constants.skip = Constants("ssm_d", {shape.heads, 1});
    constants.norm = Constants("ssm_norm.weight", {shape.groups, shape.inner() / shape.groups});
    constants.eps = spec_.norm_eps;
  }

  void Convolution(ConvolutionWeights& convolution) {
    const ConvolutionShape& shape = spec_.convolution;
    convolution.in =
        slots_.Required(Name("shortconv.in_proj.weight"), {shape.projected(), spec_.width});
    convolution.out =
        slots_.Required(Name("shortconv.out_proj.weight"), {spec_.width, shape.width});
    convolution.kernel = Constants("shortconv.conv.weight", {shape.width, shape.kernel});
  }

  // REQUIRES: queries have a low rank.
  void Indexer(const AttentionWeights& attention, IndexerWeights& indexer) {
    const IndexerShape& shape = spec_.indexer;
    const uint64_t rank = attention.query_down.rows;
    indexer.queries = slots_.Required(Name("indexer.attn_q_b.weight"),
                                      {uint64_t{shape.heads} * shape.width, rank});
    indexer.key = slots_.Required(Name("indexer.attn_k.weight"), {shape.width, spec_.width});
    indexer.weights = slots_.Required(Name("indexer.proj.weight"), {shape.heads, spec_.width});
    indexer.constants.norm = Constants("indexer.k_norm.weight", {1, shape.width});
    indexer.constants.bias = Constants("indexer.k_norm.bias", {1, shape.width});
  }

  void LatentProjections(LayerWeights& layer) {
    AttentionWeights& attention = layer.attention;
    const ModelSpec::Latent& latent = spec_.latent;
    const uint64_t heads = spec_.heads;
    const uint64_t query = heads * spec_.key_width;
    if (slots_.Has(Name("attn_q_a.weight"))) {
      attention.query_down = slots_.Required(Name("attn_q_a.weight"), {0, spec_.width});
      const uint32_t rank = attention.query_down.rows;
      attention.query_down_norm = slots_.RequiredVector(Name("attn_q_a_norm.weight"), rank);
      attention.query_up = slots_.Required(Name("attn_q_b.weight"), {query, rank});
    } else {
      attention.query = Weighted("attn_q", {query, spec_.width});
    }
    attention.latent_down =
        slots_.Required(Name("attn_kv_a_mqa.weight"), {latent.rank + spec_.rope.dims, spec_.width});
    attention.latent_norm = slots_.RequiredVector(Name("attn_kv_a_norm.weight"), latent.rank);
    attention.key_up =
        slots_.Required(Name("attn_k_b.weight"), {heads * latent.rank, latent.nope_width});
    attention.value_up =
        slots_.Required(Name("attn_v_b.weight"), {heads * latent.value_width, latent.rank});
    const uint64_t values = heads * latent.value_width;
    if (spec_.gated_attention)
      attention.output_gate = slots_.Required(Name("attn_gate.weight"), {values, spec_.width});
    else
      attention.head_gate = slots_.Optional(Name("attn_gate.weight"), {heads, spec_.width});
    attention.output = Weighted("attn_output", {spec_.width, values});
    if (spec_.layer[layer_].own_indexer) return Indexer(attention, layer.indexer);
    if (!spec_.unused_indexer && spec_.indexer.heads == 0) return;
    for (const char* name :
         {"attn_q_b.weight", "attn_k.weight", "k_norm.weight", "k_norm.bias", "proj.weight"})
      slots_.Ignore(Name(Cat("indexer.", name).c_str()));
  }

  MlpWeights Mlp(const char* gate, const char* up, const char* down) {
    MlpWeights mlp;
    if (spec_.gated_mlps) mlp.gate = Weighted(gate, {0, spec_.width});
    mlp.up = Weighted(up, {mlp.gate.weight.rows, spec_.width});
    mlp.down = Weighted(down, {spec_.width, mlp.inner()});
    return mlp;
  }

  // Each chunk expert is so many rows of the stacked matrices.
  std::vector<MlpWeights> Chunks(uint32_t expert_count) {
    const uint32_t count = expert_count / spec_.chunks.experts, width = spec_.width;
    const Matrix gate = slots_.Required(Name("ffn_gate_chexps.weight"), {0, width});
    const Matrix up = slots_.Required(Name("ffn_up_chexps.weight"), {gate.rows, width});
    const uint32_t inner = count == 0 ? 0 : gate.rows / count;
    const Matrix down =
        slots_.Required(Name("ffn_down_chexps.weight"), {uint64_t{count} * width, inner});
    if (uint64_t{count} * spec_.chunks.experts != expert_count || inner * count != gate.rows) {
      slots_.Refuse(Name("ffn_gate_chexps.weight"),
                    Cat("rows of a chunk expert for each ", spec_.chunks.experts, " of ",
                        expert_count, " experts"),
                    Cat(gate.rows));
    }
    std::vector<MlpWeights> chunks;
    for (uint32_t chunk = 0; chunk < count && !slots_.failed(); ++chunk) {
      MlpWeights one;
      one.gate.weight = gate.Slice(chunk * inner, inner);
      one.up.weight = up.Slice(chunk * inner, inner);
      one.down.weight = down.Slice(chunk * width, width);
      chunks.push_back(one);
    }
    return chunks;
  }

  void Space(LayerWeights& layer) {
    const auto name = [&](const char* end) {
      return Name(Cat(spec_.space_tensors, end, ".weight").c_str());
    };
    layer.space_down = slots_.Required(name("_down"), {spec_.expert_space, spec_.width});
    layer.space_up = slots_.Required(name("_up"), {spec_.width, spec_.expert_space});
    layer.space_norm = slots_.OptionalVector(name("_norm"), spec_.expert_space);
  }

  void Experts(uint32_t expert_count, LayerWeights& layer) {
    layer.router = Weighted("ffn_gate_inp", {expert_count, spec_.width});
    layer.selection_bias = SelectionBias(slots_, Name("exp_probs_b"), expert_count);
    const LayerSpec& spec = spec_.layer[layer_];
    if (spec.routes_by_table) {
      layer.expert_table = slots_.Ids(Name("ffn_gate_tid2eid.weight"),
                                      {vocabulary_, spec.router.top_k}, expert_count);
    }
    if (spec_.expert_space > 0) Space(layer);
    if (spec_.chunks.experts > 0) layer.chunks = Chunks(expert_count);
    if (!slots_.Has(Name("ffn_down_shexp.weight"))) return;
    layer.shared = Mlp("ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp");
    layer.shared_gate = slots_.Optional(Name("ffn_gate_inp_shexp.weight"), {1, spec_.width});
  }

  void Feed(uint32_t number, const char* norm, LayerWeights& layer) {
    if (!spec_.one_norm && !spec_.streams.gated()) layer.mlp_norm = Norm(Name(norm));
    layer.streams.score = Score(Name("ffn_res_score.weight"));
    const auto found = weights_.moe_layers.find(number);
    const bool experts = found != weights_.moe_layers.end();
    if (experts) Experts(found->second, layer);
    if (!experts || spec_.parallel_experts) layer.dense = Mlp("ffn_gate", "ffn_up", "ffn_down");
    if (spec_.norms_after) {
      layer.attention.norm_after = WidthNorm("post_attention_norm.weight");
      layer.norm_after = WidthNorm("post_ffw_norm.weight");
    }
    if (!spec_.parallel_experts) return;
    layer.attention.norm_after = WidthNorm("post_attention_norm.weight");
    layer.parallel = {WidthNorm("post_ffw_norm_1.weight"), WidthNorm("pre_ffw_norm_2.weight"),
                      WidthNorm("post_ffw_norm_2.weight"), WidthNorm("post_ffw_norm.weight"),
                      WidthNorm("ffn_gate_inp.scale")};
    const std::vector<float> scale = slots_.Values(Name("layer_output_scale.weight"), 1);
    if (!scale.empty()) layer.parallel.scale = scale[0];
  }

  LayerWeights Layer(uint32_t number) {
    layer_ = number;
    LayerWeights layer;
    if (!spec_.layer[number].mixes) {
      Feed(number, "attn_norm", layer);
      return layer;
    }
    if (!spec_.streams.gated()) layer.attention.norm = Norm(Name("attn_norm"));
    if (spec_.streams.count > 0) {
      layer.mixer_streams = TakeStreams(slots_, Name("hc_attn_"), spec_);
      layer.streams = TakeStreams(slots_, Name("hc_ffn_"), spec_);
    }
    if (spec_.layer[number].embeds_ngrams) layer.ngrams = TakeNgrams(slots_, Name("ple_"), spec_);
    layer.mixer_streams.score = Score(Name("attn_res_score.weight"));
    if (spec_.layer[number].recurrent)
      Recurrence(layer);
    else if (spec_.compressed.groups > 0)
      layer.compressed = TakeCompressed(slots_, spec_, number);
    else if (spec_.is_latent())
      LatentProjections(layer);
    else
      PlainProjections(layer.attention);
    layer.attention.sinks =
        slots_.OptionalVector(Name("attn_sinks.weight"), spec_.layer[number].heads);
    if (spec_.layer[number].feeds) Feed(number, spec_.second_norm, layer);
    return layer;
  }

  const Weights& weights_;
  const ModelSpec& spec_;
  TensorSlots slots_;
  uint32_t layer_ = 0, vocabulary_ = 0;
};

class SetBuilder {
 public:
  SetBuilder(const std::string& path, const ExpertSet& set, const ModelSpec& spec,
             Executor& executor)
      : set_(set),
        spec_(spec),
        slots_(path, set.tensors, executor),
        routers_(path, set.routers, executor) {}

  Result<DeviceSet> Build() {
    DeviceSet device{set_.label, set_.group, set_.experts_by_layer, {}, {}, {}, 0};
    device.layers.resize(spec_.layers);
    for (const auto& [layer, ids] : set_.experts_by_layer) {
      if (layer >= spec_.layers || ids.empty() || slots_.failed()) continue;
      device.layers[layer] = Layer(layer, static_cast<uint32_t>(ids.size()));
    }
    SHARD_CHECK(slots_.Finish());
    SHARD_CHECK(AddRouters(device));
    device.bytes = slots_.bytes() + routers_.bytes();
    device.buffers = slots_.TakeBuffers();
    for (BufferPtr& buffer : routers_.TakeBuffers()) device.buffers.push_back(std::move(buffer));
    return device;
  }

 private:
  std::string Name(const char* suffix) const { return Cat("blk.", layer_, ".", suffix); }

  Status AddRouters(DeviceSet& device) {
    for (layer_ = 0; layer_ < spec_.layers && !routers_.failed(); ++layer_) {
      if (!routers_.Has(Name("ffn_gate_inp.weight"))) continue;
      const uint32_t expert_count = spec_.layer[layer_].router.expert_count;
      RouterWeights& router = device.routers[layer_];
      router.rows.weight =
          routers_.Required(Name("ffn_gate_inp.weight"), {expert_count, spec_.width});
      router.rows.bias = routers_.OptionalVector(Name("ffn_gate_inp.bias"), expert_count);
      router.selection_bias = SelectionBias(routers_, Name("exp_probs_b"), expert_count);
    }
    return routers_.Finish();
  }

  // Takes the matrices of one kind for all experts. `one` is the shape of one expert's; 0 rows
  // allow any number.
  Linear Stacked(const char* kind, uint32_t count, MatrixShape one) {
    Linear stacked;
    stacked.weight = slots_.Required(Name(kind) + ".weight", {one.rows * count, one.columns});
    if (stacked.weight.rows % count != 0)
      slots_.Refuse(Name(kind) + ".weight", Cat(count, " matrices"),
                    Cat(stacked.weight.rows, " rows"));
    stacked.bias = slots_.Optional(Name(kind) + ".bias", {count, stacked.weight.rows / count});
    if (stacked.bias && stacked.bias.format->name != "f32")
      slots_.Refuse(Name(kind) + ".bias", "f32", std::string(stacked.bias.format->name));
    return stacked;
  }

  static Linear OneOf(const Linear& stacked, uint32_t count, uint32_t index) {
    const uint32_t rows = stacked.weight.rows / count;
    Linear one{stacked.weight.Slice(index * rows, rows), {}};
    if (stacked.bias) one.bias = stacked.bias.Slice(index, 1);
    return one;
  }

  // Returns the first (0) or second (1) half of the rows of a fused matrix.
  static Linear HalfOf(const Linear& fused, uint32_t half) {
    const uint32_t rows = fused.weight.rows / 2;
    return {fused.weight.Slice(half * rows, rows), ValuesOf(fused.bias, half * rows, rows)};
  }

  std::vector<MlpWeights> Ungated(uint32_t count) {
    const uint32_t width = spec_.expert_width();
    const Linear up = Stacked("ffn_up_exps", count, {0, width});
    const Linear down = Stacked("ffn_down_exps", count, {width, up.weight.rows / count});
    std::vector<MlpWeights> experts(slots_.failed() ? 0 : count);
    for (uint32_t index = 0; index < experts.size(); ++index)
      experts[index] = {{}, OneOf(up, count, index), OneOf(down, count, index), 1};
    return experts;
  }

  std::vector<MlpWeights> Layer(uint32_t number, uint32_t count) {
    layer_ = number;
    if (!spec_.gated_mlps) return Ungated(count);
    const bool fused = slots_.Has(Name("ffn_gate_up_exps.weight"));
    const uint32_t width = spec_.expert_width();
    const Linear gate = Stacked(fused ? "ffn_gate_up_exps" : "ffn_gate_exps", count, {0, width});
    const uint32_t rows = gate.weight.rows / count;
    if (fused && rows % 2 != 0)
      slots_.Refuse(Name("ffn_gate_up_exps.weight"), "an even number of rows", Cat(rows));
    const uint32_t inner = fused ? rows / 2 : rows;
    const Linear up = fused ? Linear{} : Stacked("ffn_up_exps", count, {inner, width});
    const Linear down = Stacked("ffn_down_exps", count, {width, inner});
    std::vector<MlpWeights> experts(slots_.failed() ? 0 : count);
    for (uint32_t index = 0; index < experts.size(); ++index) {
      const Linear first = OneOf(gate, count, index);
      experts[index].gate = fused ? HalfOf(first, 0) : first;
      experts[index].up = fused ? HalfOf(first, 1) : OneOf(up, count, index);
      experts[index].down = OneOf(down, count, index);
    }
    const std::vector<float> scales = slots_.Values(Name("ffn_down_exps.scale"), count);
    for (uint32_t index = 0; index < scales.size() && index < experts.size(); ++index)
      experts[index].output_scale = scales[index];
    return experts;
  }

  const ExpertSet& set_;
  const ModelSpec& spec_;
  TensorSlots slots_, routers_;
  uint32_t layer_ = 0;
};

}  // namespace

Result<DeviceTrunk> UploadTrunk(const Weights& weights, const ModelSpec& spec, Executor& executor) {
  return TrunkBuilder(weights, spec, executor).Build();
}

Result<DeviceSet> UploadSet(const std::string& path, const ExpertSet& set, const ModelSpec& spec,
                            Executor& executor) {
  return SetBuilder(path, set, spec, executor).Build();
}

}  // namespace moepack::runtime
