#include "libshard/families/granite_rows.h"

#include <algorithm>
#include <cmath>

#include "libshard/base/text/text.h"
#include "libshard/convert/tokenizers/special_tokens.h"
#include "libshard/model/config_fields.h"

namespace moepack {
namespace {

// llama.cpp's converter uses it to recognise the small Granite models, which need no
// beginning-of-text token.
constexpr uint64_t kSmallVocabulary = 49152;

Result<uint32_t> SharedWidth(const HfConfig& config) {
  SHARD_TRY(const std::optional<uint32_t> width, config.FindU32(fields::kSharedWidth));
  return width.value_or(0);
}

}  // namespace

Status AddGraniteKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_CHECK(CheckSquareHeads(config, shape));
  keys.U32("vocab_size", shape.vocabulary);
  keys.U32("rope.dimension_count", shape.head_size);
  const std::pair<const char*, const char*> multipliers[] = {
      {"attention_multiplier", "attention.scale"},
      {"embedding_multiplier", "embedding_scale"},
      {"residual_multiplier", "residual_scale"},
      {"logits_scaling", "logit_scale"}};
  for (const auto& [field, key] : multipliers) {
    SHARD_TRY(const float value, config.F32({field}));
    if (value != 0) keys.F32(key, value);
  }
  SHARD_TRY(const float divisor, config.F32({"logits_scaling"}));
  if (divisor == 0) {
    return config.Wrong(*config.Find({"logits_scaling"}), "a number that logits are divided by");
  }
  SHARD_TRY(const uint32_t shared, SharedWidth(config));
  if (shared > 0) keys.U32("expert_shared_feed_forward_length", shared);
  return Ok();
}

Status CheckGraniteShared(const HfConfig& config, const HfShape& shape,
                          const std::vector<GgufTensor>& tensors) {
  SHARD_TRY(const uint32_t width, SharedWidth(config));
  const auto found = std::count_if(tensors.begin(), tensors.end(), [](const GgufTensor& tensor) {
    return tensor.name.ends_with("_shexp.weight");
  });
  const uint32_t expected = width == 0 ? 0 : 3 * shape.layers;  // gate, up and down
  if (found == expected) return Ok();
  return Error{Code::kCorrupt,
               Cat(config.where(), ": shared_intermediate_size ", width, ": expected ",
                   Plural(expected, "tensor"), " of shared experts in the GGUF, found ", found)};
}

Status AddGraniteTokenizerKeys(const TokenizerFiles& files, const Vocabulary& vocabulary,
                               GgufMetadata& metadata) {
  SHARD_CHECK(AddSpacePrefix(files, vocabulary, metadata));
  const GgufValue* tokens = metadata.Find("tokenizer.ggml.tokens");
  if (tokens != nullptr && tokens->Count() == kSmallVocabulary) {
    metadata.Set("tokenizer.ggml.add_bos_token", GgufValue::Bool(false));
  }
  return Ok();
}

namespace {

// Gate and up are stacked in input_linear.
void AddMlpRows(HfFamily& family, const std::string& from, const std::string& kind, bool optional) {
  const auto add = [&](const char* source, const char* target, RowOrder order) {
    family.rows.push_back({Cat("layers.{L}.", from, source, "_linear.weight"),
                           Cat("blk.{L}.ffn_", target, kind, ".weight"), order, optional});
  };
  add("input", "gate", RowOrder::kFirstHalf);
  add("input", "up", RowOrder::kSecondHalf);
  add("output", "down", RowOrder::kAsIs);
}

}  // namespace

void AddGraniteMoeRows(HfFamily& family) {
  family.rows.push_back({"layers.{L}.post_attention_layernorm.weight", "blk.{L}.ffn_norm.weight"});
  family.rows.push_back(
      {"layers.{L}.block_sparse_moe.router.layer.weight", "blk.{L}.ffn_gate_inp.weight"});
  AddMlpRows(family, "block_sparse_moe.", "_exps", /*optional=*/false);
  AddMlpRows(family, "shared_mlp.", "_shexp", /*optional=*/true);
}

void ReadGraniteScales(SpecKeys& keys, ModelSpec& spec) {
  const float attention = keys.Float("attention.scale", 0);
  if (attention != 0) spec.attention_scale = attention;
  const float embedding = keys.Float("embedding_scale", 0);
  if (embedding != 0) spec.embedding_scale = embedding;
  const float residual = keys.Float("residual_scale", 0);
  if (residual != 0) spec.residual_scale = residual;
  const float logits = keys.RequiredFloat("logit_scale");
  if (logits == 0) keys.Refuse("logit_scale", "a number that is not zero", "0");
  spec.logit_scale = 1 / logits;
  if (!std::isfinite(spec.logit_scale))
    keys.Refuse("logit_scale", "a number with a finite reciprocal", Cat(logits));
}

}  // namespace moepack
