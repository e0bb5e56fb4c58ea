// DeepSeek-V2, V2.5 and V2-Lite: softmax over all experts, not renormalised; V2-Lite projects
// queries without a low rank.
#include "libshard/base/text.h"
#include "libshard/convert/families/deepseek2.h"
#include "libshard/convert/families/families.h"

namespace shard {
namespace {

// transformers' DeepseekV2Config. Its q_lora_rank (1536) is not here: V2-Lite says null.
constexpr std::string_view kDefaults =
    R"({"rope_theta": 10000, "rms_norm_eps": 1e-6, "n_shared_experts": 2,
        "routed_scaling_factor": 1.0, "norm_topk_prob": false})";

// The runtime scores a group by its two best experts, V2 by its best one.
void WarnOfGroups(const MoeModel& model, GgufModel& gguf) {
  const auto groups = gguf.metadata.Uint("deepseek2.expert_group_count");
  if (groups.value_or(0) <= 1) return;
  gguf.warnings.push_back(Cat(model.config_path().string(), ": n_group: expected 1, found ",
                              *groups,
                              "; the runtime chooses groups by the sum of their two best experts, "
                              "this model by the best one, so that some tokens are routed "
                              "differently"));
}

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
  SHARD_TRY(GgufModel gguf, ConvertHf(model, family, options));
  WarnOfGroups(model, gguf);
  return gguf;
}

}  // namespace shard
