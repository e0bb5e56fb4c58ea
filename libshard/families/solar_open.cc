// Solar Open: GLM-4.5's layers without norms of queries and keys, and with another tokenizer.
// Names: transformers (SolarOpen).
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/glm.h"
#include "libshard/families/name_rows.h"

namespace moepack::solar_open {
namespace {

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
  family.promise = {.complete = true, .output_bias = false};
  return family;
}

Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  AddGlm4Moe(family);
  family.pre = "solar-open";
  family.special_texts = {{"eos", "<|endoftext|>"},
                          {"eot", "<|endoftext|>"},
                          {"unk", "<unk>"},
                          {"bos", "<|startoftext|>"}};
  return ConvertHf(model, family, options);
}

constexpr std::string_view kArchitectures[] = {"SolarOpenForCausalLM"};
constexpr std::string_view kModelTypes[] = {"solar_open"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' SolarOpenConfig
    {R"({"rope_theta": 1000000, "partial_rotary_factor": 1.0, "rms_norm_eps": 1e-5,
        "first_k_dense_replace": 0, "n_shared_experts": 1})"},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"solar-open", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .architecture = "glm4moe",
    .convert = Convert,
};

}  // namespace moepack::solar_open
