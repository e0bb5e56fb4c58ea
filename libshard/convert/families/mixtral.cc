// Mixtral is architecture "llama" with experts: queries and keys are permuted for its rope; w1 is
// gate, w3 is up, w2 is down.
#include "libshard/base/text/text.h"
#include "libshard/convert/families/families.h"
#include "libshard/convert/hf_family.h"
#include "libshard/convert/tokenizers/special_tokens.h"

namespace moepack {
namespace {

constexpr float kDefaultTheta = 1e6f;  // transformers' MixtralConfig

Status AddKeys(const HfConfig&, const HfShape& shape, ArchKeys& keys) {
  keys.U32("vocab_size", shape.vocabulary);
  keys.U32("rope.dimension_count", shape.head_size);
  return Ok();
}

Status AddTokenizerKeys(const TokenizerFiles& files, const Vocabulary& /*vocabulary*/,
                        GgufMetadata& metadata) {
  AddSpacePrefix(files, metadata);
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
  // The form that transformers 5 saves.
  AddFusedExpertRows(family, "layers.{L}.mlp.experts.");
  return ConvertHf(model, family, options);
}

}  // namespace moepack
