// DeepSeek-V2, V2.5 and V2-Lite: softmax over all experts, not renormalised; V2-Lite projects
// queries without a low rank.
#include "libshard/base/text/text.h"
#include "libshard/convert/families/families.h"
#include "libshard/convert/families/latent/deepseek2.h"

namespace moepack {
namespace {

// transformers' DeepseekV2Config. Its q_lora_rank (1536) is omitted because V2-Lite sets null.
constexpr std::string_view kDefaults =
    R"({"rope_theta": 10000, "rms_norm_eps": 1e-6, "n_shared_experts": 2})";

}  // namespace

Result<GgufModel> ConvertDeepseekV2(const MoeModel& model, const ConvertOptions& options) {
  if (model.config().model_type == "deepseek") {
    return Error{Code::kUnsupported,
                 Cat(model.config_path().string(),
                     ": model_type: expected deepseek_v2, found \"deepseek\", which has no "
                     "multi-head latent attention"),
                 "safetensors output (--format safetensors) still works"};
  }
  SHARD_TRY(HfFamily family, MakeDeepseek2(model, {.defaults = kDefaults}));
  family.pre = "deepseek-llm";
  return ConvertHf(model, family, options);
}

}  // namespace moepack
