// GLM-5 and 5.1: DeepSeek-V3.2's attention with an indexer, GLM's tokens, and blocks for
// multi-token prediction, which are kept.
#include "libshard/convert/families/families.h"
#include "libshard/convert/families/glm.h"
#include "libshard/convert/families/latent/deepseek2.h"

namespace moepack {
Result<GgufModel> ConvertGlm5(const MoeModel& model, const ConvertOptions& options) {
  SHARD_TRY(
      HfFamily family,
      MakeDeepseek2(model, {.architecture = "glm-dsa", .indexer = true, .selection_bias = true}));
  AddGlmRules(family);
  return ConvertHf(model, family, options);
}

}  // namespace moepack
