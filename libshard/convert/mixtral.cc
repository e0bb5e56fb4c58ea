// Mixtral is architecture "llama" with experts: queries and keys permuted for its rope, w1 the
// gate, w3 up, w2 down.
#include <nlohmann/json.hpp>

#include "libshard/convert/families.h"
#include "libshard/convert/hf_family.h"
#include "libshard/text.h"

namespace shard {
namespace {

constexpr float kDefaultTheta = 1e6f;  // transformers' MixtralConfig

Status AddKeys(const HfConfig&, const HfShape& shape, ArchKeys& keys) {
  keys.U32("vocab_size", shape.vocabulary);
  keys.U32("rope.dimension_count", shape.head_size);
  return Ok();
}

Status AddTokenizerKeys(const TokenizerFiles& files, GgufMetadata& metadata) {
  const Json* prefix = files.Config("add_prefix_space");
  if (prefix == nullptr || !prefix->is_boolean()) return Ok();
  metadata.Set("tokenizer.ggml.add_space_prefix", GgufValue::Bool(prefix->get<bool>()));
  return Ok();
}

}  // namespace

Result<GgufModel> ConvertMixtral(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = "llama";
  family.rope = {.default_theta = kDefaultTheta, .llama3 = true};
  family.keys = AddKeys;
  family.vocabulary = ReadSentencePieceOrBpe;
  family.tokenizer_keys = AddTokenizerKeys;
  AddModelRows(family);
  AddAttentionRows(family, {RowOrder::kRope, RowOrder::kRopeKv, /*biases=*/true});
  family.rows.push_back({"layers.{L}.post_attention_layernorm.weight", "blk.{L}.ffn_norm.weight"});
  for (const char* gate : {"block_sparse_moe.gate", "mlp.gate"}) {
    family.rows.push_back({Cat("layers.{L}.", gate, ".weight"), "blk.{L}.ffn_gate_inp.weight"});
  }
  AddExpertRows(family, "layers.{L}.block_sparse_moe.experts.", {"w1", "w3", "w2"});
  // As transformers 5 saves it.
  AddFusedExpertRows(family, "layers.{L}.mlp.experts.");
  return ConvertHf(model, family, options);
}

}  // namespace shard
