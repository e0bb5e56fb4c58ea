#include "runtime-shim/model/compressed_weights.h"

#include "libshard/base/text/text.h"

namespace moepack::runtime {
namespace {

// Values that must exist.
std::vector<float> HostValues(TensorSlots& slots, const std::string& name, MatrixShape shape) {
  if (!slots.Has(name)) slots.Refuse(name, Cat("a tensor of ", shape.rows * shape.columns), "none");
  return slots.Values(name, shape);
}

// `prefix`: "blk.2.attn_compressor_"
CompressorWeights TakeCompressor(TensorSlots& slots, const std::string& prefix,
                                 const CompressorShape& shape, const ModelSpec& spec) {
  CompressorWeights compressor;
  compressor.values = slots.Required(prefix + "kv.weight", {shape.columns(), spec.width});
  compressor.scores = slots.Required(prefix + "gate.weight", {shape.columns(), spec.width});
  // A recipe may give it any type, as it is a matrix.
  compressor.constants.places =
      slots.Decoded(prefix + "ape.weight", {shape.ratio, shape.columns()});
  compressor.constants.norm = HostValues(slots, prefix + "norm.weight", {1, shape.width});
  compressor.constants.eps = spec.norm_eps;
  return compressor;
}

struct MixtureSizes {
  uint64_t scales = 0, projected = 0;
};
StreamWeights TakeMixture(TensorSlots& slots, const std::string& prefix, const ModelSpec& spec,
                          const MixtureSizes& sizes) {
  StreamWeights streams;
  streams.projection = slots.Required(prefix + "fn.weight", {sizes.projected, spec.hidden_width()});
  streams.constants.scale = HostValues(slots, prefix + "scale.weight", {1, sizes.scales});
  streams.constants.base = HostValues(slots, prefix + "base.weight", {1, sizes.projected});
  return streams;
}

}  // namespace

CompressedWeights TakeCompressed(TensorSlots& slots, const ModelSpec& spec, uint32_t layer) {
  const auto name = [&](const char* suffix) { return Cat("blk.", layer, ".", suffix); };
  const LayerSpec& own = spec.layer[layer];
  const uint64_t values = uint64_t{own.heads} * own.value_width;
  const uint64_t low = uint64_t{spec.compressed.groups} * spec.compressed.rank;
  CompressedWeights weights;
  weights.query_down = slots.Required(name("attn_q_a.weight"), {0, spec.width});
  const uint32_t rank = weights.query_down.rows;
  weights.query_down_norm = slots.RequiredVector(name("attn_q_a_norm.weight"), rank);
  weights.query_up =
      slots.Required(name("attn_q_b.weight"), {uint64_t{own.heads} * own.key_width, rank});
  weights.key = slots.Required(name("attn_kv.weight"), {own.key_width, spec.width});
  weights.key_norm = slots.RequiredVector(name("attn_kv_a_norm.weight"), own.key_width);
  weights.output_down =
      slots.Required(name("attn_output_a.weight"), {low, values / spec.compressed.groups});
  weights.output_up = slots.Required(name("attn_output_b.weight"), {spec.width, low});
  if (own.ratio == 0) return weights;
  weights.compressor =
      TakeCompressor(slots, name("attn_compressor_"), spec.CompressorOf(layer), spec);
  if (!own.own_indexer) return weights;
  const IndexerShape& indexer = spec.indexer;
  weights.index_queries = slots.Required(name("indexer.attn_q_b.weight"),
                                         {uint64_t{indexer.heads} * indexer.width, rank});
  weights.index_weights = slots.Required(name("indexer.proj.weight"), {indexer.heads, spec.width});
  weights.index_compressor =
      TakeCompressor(slots, name("indexer_compressor_"), spec.IndexCompressorOf(layer), spec);
  return weights;
}

StreamWeights TakeStreams(TensorSlots& slots, const std::string& prefix, const ModelSpec& spec) {
  if (spec.streams.gated()) return {{}, {}, TakeGatedStreams(slots, prefix, spec)};
  constexpr uint64_t kScales = 3;  // of reading, writing and keeping
  return TakeMixture(slots, prefix, spec, {kScales, spec.streams.projected()});
}

StreamWeights TakeHeadStreams(TensorSlots& slots, const ModelSpec& spec) {
  if (spec.streams.gated()) return {{}, {}, TakeHeadGates(slots, spec)};
  return TakeMixture(slots, "output_hc_", spec, {1, spec.streams.count});
}

}  // namespace moepack::runtime
