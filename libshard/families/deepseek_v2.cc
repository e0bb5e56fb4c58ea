// DeepSeek-V2, V2-Lite, V2.5 and the first DeepSeekMoE: softmax over all experts, not normalised;
// MLA is in self_attn. Leading layers are dense. Names: config and llama.cpp's tensor map.
#include "libshard/base/text/text.h"
#include "libshard/families/deepseek2.h"
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"

namespace moepack::deepseek_v2 {
namespace {

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {
      .gating = Gating::kSoftmax, .normalize = false, .group_score = GroupScore::kBest};
  family.facts = {.square_heads = true, .shared_of_experts = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddDeepseekMoe(family, "layers.{L}.");
  family.cards = CardConvention::kWithoutEmbedding;
  family.promise = {.complete = true};
  return family;
}

// DeepSeek-V2, V2.5 and V2-Lite: softmax over all experts, not renormalised; V2-Lite projects
// queries without a low rank.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
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

constexpr std::string_view kArchitectures[] = {"DeepseekV2ForCausalLM", "DeepseekForCausalLM"};
constexpr std::string_view kModelTypes[] = {"deepseek_v2", "deepseek"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' DeepseekV2Config. Its q_lora_rank (1536) is omitted because V2-Lite sets null.
    {R"({"rope_theta": 10000, "rms_norm_eps": 1e-6, "n_shared_experts": 2})"},
};

// GLM-4.7-Flash with and without its block for multi-token prediction: a deepseek2 whose older
// files lack expert_gating_func.
constexpr ModelShape kGlmFlash[] = {{47, 154880}, {48, 154880}};
// DeepSeek-V2-Lite and its relatives.
constexpr ModelShape kLite[] = {{26}, {27}, {48, 128256}};
constexpr GgufArchitecture kGraphs[] = {
    {.name = "deepseek"},
    {.name = "deepseek2",
     .routing = {{.gating = Gating::kSoftmax,
                  .normalize = false,
                  .reads_gating = true,
                  .reads_weights = true,
                  .sigmoid = kGlmFlash}},
     .direct_queries = kLite,
     .cards = CardConvention::kWithoutEmbedding},
};

constexpr RuntimeFamily kRuns[] = {
    {"deepseek2", "DeepSeek-V2 and V3, Kimi-K2, GLM-4.7-Flash", FillDeepseek2},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"deepseek-v2", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = "deepseek2",
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::deepseek_v2
