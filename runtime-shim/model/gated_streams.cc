#include "runtime-shim/model/gated_streams.h"

#include "libshard/base/text/text.h"

namespace moepack::runtime {
namespace {

// The vector of all streams, in parts of one stream.
std::vector<Matrix> StreamVectors(TensorSlots& slots, const std::string& name,
                                  const ModelSpec& spec) {
  const Matrix all = slots.RequiredVector(name, spec.hidden_width());
  std::vector<Matrix> parts(spec.streams.count, all);
  for (size_t stream = 0; stream < parts.size() && all; ++stream) {
    parts[stream].offset += stream * spec.width * sizeof(float);
    parts[stream].columns = spec.width;
  }
  return parts;
}

}  // namespace

GatedStreamWeights TakeHeadGates(TensorSlots& slots, const ModelSpec& spec) {
  const std::string prefix = "output_hc_";
  const uint64_t width = spec.hidden_width(), rank = spec.streams.low_rank;
  return {StreamVectors(slots, prefix + "norm.weight", spec),
          slots.Required(prefix + "down.weight", {rank, width}),
          slots.Required(prefix + "up.weight", {width, rank}),
          {}};
}

GatedStreamWeights TakeGatedStreams(TensorSlots& slots, const std::string& prefix,
                                    const ModelSpec& spec) {
  const uint64_t width = spec.hidden_width(), rank = spec.streams.low_rank;
  return {StreamVectors(slots, prefix + "norm.weight", spec),
          slots.Required(prefix + "down.weight", {rank, width}),
          slots.Required(prefix + "up.weight", {width, rank}),
          slots.Required(prefix + "inject.weight", {spec.streams.count, width})};
}

NgramWeights TakeNgrams(TensorSlots& slots, const std::string& prefix, const ModelSpec& spec) {
  const NgramShape& shape = spec.ngrams;
  const uint64_t embedded = uint64_t{shape.picks()} * shape.width;
  NgramWeights weights;
  weights.key = slots.Required(prefix + "key.weight", {shape.channels, embedded});
  weights.value = slots.Required(prefix + "value.weight", {spec.width, embedded});
  weights.key_norms = StreamVectors(slots, prefix + "norm_key.weight", spec);
  weights.query_norms = StreamVectors(slots, prefix + "norm_query.weight", spec);
  weights.constants.norm = slots.Decoded(prefix + "norm_conv.weight", {1, shape.channels});
  weights.constants.kernel =
      slots.Decoded(prefix + "conv1d.weight", {shape.channels, shape.kernel});
  weights.constants.eps = spec.norm_eps;
  return weights;
}

Matrix TakeNgramTable(TensorSlots& slots, const NgramShape& shape) {
  const std::string name = "per_layer_token_embd.weight";
  const Matrix table = slots.Required(name, {0, shape.width});
  for (size_t head = 0; head < shape.rows.size() && head < shape.offsets.size() && table; ++head) {
    const uint64_t rows = shape.rows[head], first = shape.offsets[head];
    if (rows > 0 && first <= table.rows && rows <= table.rows - first) continue;
    slots.Refuse(name, Cat("rows from ", first, " on for head ", head, ", which has ", rows),
                 Cat(table.rows, " rows"));
  }
  return table;
}

}  // namespace moepack::runtime
