// DeepSeek-V3, R1, V3.1, V3.2 (its indexer is in self_attn) and Kimi-K2: sigmoid scores and a
// selection bias. The MTP block is one more layer after the last, with its own experts. Names: the
// indexes of two Kimi-K2 derivatives (FP8 with weight_scale_inv, and bf16).
#include "libshard/families/deepseek2.h"
#include "libshard/families/families.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"

namespace moepack::deepseek_v3 {
namespace {

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid,
                    .normalize = true,
                    .scale = 2.5,
                    .groups = 8,
                    .groups_used = 4,
                    .bias = RouterBias::kSelection};
  // Kimi's checkpoints include a copy of DeepSeek's class. No groups are assumed for them: all of
  // Kimi's models have one, and with eight of them different experts would be chosen.
  family.routing_exceptions = {{"kimi",
                                {.gating = Gating::kSigmoid,
                                 .normalize = true,
                                 .scale = 2.5,
                                 .bias = RouterBias::kSelection}}};
  family.facts = {.square_heads = true, .shared_of_experts = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddDeepseekMoe(family, "layers.{L}.");
  AddSelectionBias(family, "layers.{L}.mlp.gate.e_score_correction_bias");
  AddMtpExtras(family, "layers.{L}.");
  family.cards = CardConvention::kWithoutEmbedding;
  family.promise = {.complete = true, .indexed = {"DeepseekV32ForCausalLM"}};
  return family;
}

bool IsKimi(const ModelConfig& config) {
  return config.model_type.starts_with("kimi") || config.text_model_type.starts_with("kimi");
}

constexpr std::string_view kArchitectures[] = {"DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM"};
constexpr std::string_view kModelTypes[] = {"deepseek_v3", "deepseek_v32", "kimi_k2"};

constexpr ConfigDefault kDefaults[] = {
    {kKimi, "kimi"},
    // transformers' DeepseekV3Config
    {R"({"rope_theta": 10000, "rms_norm_eps": 1e-6, "n_shared_experts": 1,
        "first_k_dense_replace": 3})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = "deepseek32",
     .routing = {{.gating = Gating::kSoftmax,
                  .normalize = false,
                  .reads_gating = true,
                  .reads_weights = true}}},
};

constexpr RuntimeFamily kRuns[] = {
    {"deepseek32", "DeepSeek-V3.2 in short contexts", FillDeepseek2Short},
};

}  // namespace

// DeepSeek-V3, R1 and V3.1, Kimi-K2 and K2-Thinking: sigmoid scores, a selection bias, groups of
// experts (one in Kimi's). V3.2 has an indexer in front of the same attention. Kimi-K2.5 adds a
// vision tower. Blocks for multi-token prediction are kept for V3.2 and left out otherwise, as in
// llama.cpp's converter.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
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

constinit const FamilyEntry kFamily = {
    .names = {"deepseek-v3", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = "deepseek2",
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::deepseek_v3
