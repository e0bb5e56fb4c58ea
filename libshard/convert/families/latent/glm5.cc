// GLM-5 and 5.1: DeepSeek-V3.2's attention with an indexer, GLM's tokens, and blocks for
// multi-token prediction, which are kept.
#include "libshard/convert/families/families.h"
#include "libshard/convert/families/glm.h"
#include "libshard/convert/families/latent/deepseek2.h"

namespace moepack {
namespace {

// Source: transformers' GlmMoeDsaConfig.
constexpr std::string_view kDefaults =
    R"({"rope_theta": 1000000, "rms_norm_eps": 1e-5, "n_shared_experts": 1,
        "first_k_dense_replace": 3})";

}  // namespace

Result<GgufModel> ConvertGlm5(const MoeModel& model, const ConvertOptions& options) {
  SHARD_TRY(HfFamily family, MakeDeepseek2(model, {.architecture = "glm-dsa",
                                                   .indexer = true,
                                                   .defaults = kDefaults,
                                                   .selection_bias = true}));
  AddGlmRules(family);
  return ConvertHf(model, family, options);
}

}  // namespace moepack
