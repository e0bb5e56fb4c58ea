// DeepSeek-V2, V2.5 and V2-Lite: softmax over all experts, not renormalised; V2-Lite projects
// queries without a low rank.
#include "libshard/base/text/text.h"
#include "libshard/convert/families/families.h"
#include "libshard/convert/families/latent/deepseek2.h"

namespace moepack {
Result<GgufModel> ConvertDeepseekV2(const MoeModel& model, const ConvertOptions& options) {
  if (model.config().model_type == "deepseek") {
    return Error{Code::kUnsupported,
                 Cat(model.config_path().string(),
                     ": model_type: expected deepseek_v2, found \"deepseek\", which has no "
                     "multi-head latent attention"),
                 "safetensors output (--format safetensors) still works"};
  }
  SHARD_TRY(HfFamily family, MakeDeepseek2(model, {}));
  family.pre = "deepseek-llm";
  return ConvertHf(model, family, options);
}

}  // namespace moepack
