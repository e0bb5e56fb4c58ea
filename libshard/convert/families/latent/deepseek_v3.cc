// DeepSeek-V3, R1 and V3.1, Kimi-K2 and K2-Thinking: sigmoid scores, a selection bias, groups of
// experts (one in Kimi's). V3.2 has an indexer in front of the same attention. Kimi-K2.5 adds a
// vision tower. Blocks for multi-token prediction are kept for V3.2 and left out otherwise, as in
// llama.cpp's converter.
#include "libshard/convert/families/families.h"
#include "libshard/convert/families/latent/deepseek2.h"
#include "libshard/convert/families/mixed_layers.h"

namespace moepack {
namespace {

bool IsKimi(const ModelConfig& config) {
  return config.model_type.starts_with("kimi") || config.text_model_type.starts_with("kimi");
}

}  // namespace

Result<GgufModel> ConvertDeepseekV3(const MoeModel& model, const ConvertOptions& options) {
  const bool sparse = model.config().architecture == "DeepseekV32ForCausalLM";
  const bool kimi = IsKimi(model.config());
  SHARD_TRY(HfFamily family,
            MakeDeepseek2(model, {.architecture = sparse ? "deepseek32" : "deepseek2",
                                  .indexer = sparse,
                                  .selection_bias = true}));
  family.pre = kimi ? "kimi-k2" : "deepseek-v3";
  if (kimi) family.vocabulary = ReadTiktokenOrBpe;
  if (sparse) {
    family.keeps_mtp = true;
    AddNextTokenRows(family);
  }
  return ConvertHf(model, family, options);
}

}  // namespace moepack
