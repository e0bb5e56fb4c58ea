// GLM-4.7-Flash: DeepSeek's attention and GLM's tokenizer.
#include "libshard/convert/families/families.h"
#include "libshard/convert/families/glm.h"
#include "libshard/convert/families/latent/deepseek2.h"

namespace moepack {
namespace {

// transformers' Glm4MoeLiteConfig, in which mlp_layer_types replaces first_k_dense_replace.
constexpr std::string_view kDefaults =
    R"({"rope_theta": 10000, "rms_norm_eps": 1e-5, "n_shared_experts": 1,
        "mlp_layer_types": ["dense"]})";

}  // namespace

Result<GgufModel> ConvertGlm4MoeLite(const MoeModel& model, const ConvertOptions& options) {
  SHARD_TRY(HfFamily family, MakeDeepseek2(model, {.defaults = kDefaults, .selection_bias = true}));
  AddGlmRules(family);
  return ConvertHf(model, family, options);
}

}  // namespace moepack
