// GLM-4.7-Flash: DeepSeek's attention and GLM's tokenizer.
#include "libshard/convert/families/families.h"
#include "libshard/convert/families/glm.h"
#include "libshard/convert/families/latent/deepseek2.h"

namespace moepack {
Result<GgufModel> ConvertGlm4MoeLite(const MoeModel& model, const ConvertOptions& options) {
  SHARD_TRY(HfFamily family, MakeDeepseek2(model, {.selection_bias = true}));
  AddGlmRules(family);
  return ConvertHf(model, family, options);
}

}  // namespace moepack
