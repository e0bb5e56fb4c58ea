// GLM-4.5, 4.6, 4.7 and GLM-4.5V: dense layers first; the MTP block is one more layer after the
// last, with its own experts (model.layers.92 of 92), often in a separate file. Names: the index of
// a 355B merge.
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/glm.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"

namespace moepack::glm4_moe {
namespace {

constexpr const char* kGraph = "glm4moe";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid,
                    .normalize = true,
                    .groups = 1,
                    .groups_used = 1,
                    .bias = RouterBias::kSelection};
  family.facts = {.square_heads = true, .shared_of_experts = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddDeepseekMoe(family, "layers.{L}.");
  AddSelectionBias(family, "layers.{L}.mlp.gate.e_score_correction_bias");
  AddMtpExtras(family, "layers.{L}.");
  AddTowers(family);
  family.cards = CardConvention::kWithoutTables;
  family.promise = {
      .complete = true, .output_bias = false, .query_key_norms = {fields::kQueryKeyNorms}};
  return family;
}

Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  AddGlm4Moe(family);
  AddGlmRules(family);
  return ConvertHf(model, family, options);
}

void Fill(SpecKeys& keys, ModelSpec& spec) {
  spec.second_norm = "post_attention_norm";
  if (keys.Has("rope.dimension_sections"))
    keys.Decline("rotation in sections (GLM-4.5V) does not run in the runtime shim");
}

constexpr std::string_view kArchitectures[] = {"Glm4MoeForCausalLM",
                                               "Glm4vMoeForConditionalGeneration"};
constexpr std::string_view kModelTypes[] = {"glm4_moe", "glm4v_moe", "glm4v_moe_text"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' Glm4MoeConfig
    {R"({"rope_theta": 10000, "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-5,
        "first_k_dense_replace": 1, "n_shared_experts": 1})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph, .routing = kSigmoidOfWrittenKeys, .cards = CardConvention::kWithoutTables},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "GLM-4.5, 4.6, 4.7", Fill},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"glm4-moe", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::glm4_moe
