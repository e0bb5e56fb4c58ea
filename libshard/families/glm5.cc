// GLM-5 and 5.1: DeepSeek-V3.2's sparse attention (self_attn.indexer) and MoE; MTP block as one
// more layer. Names: the lists of unquantized modules in GLM-5-NVFP4 and GLM-5.1-FP8.
#include <utility>

#include "libshard/base/text/text.h"
#include "libshard/families/deepseek2.h"
#include "libshard/families/families.h"
#include "libshard/families/glm.h"
#include "libshard/families/name_rows.h"

namespace moepack::glm5 {
namespace {

constexpr const char* kGraph = "glm-dsa";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  family.facts = {.shared_of_experts = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddDeepseekMoe(family, "layers.{L}.");
  AddSelectionBias(family, "layers.{L}.mlp.gate.e_score_correction_bias");
  AddMtpExtras(family, "layers.{L}.");
  family.cards = CardConvention::kWithoutTables;
  family.promise = {.complete = true, .indexer = true};
  return family;
}

// GLM-5 and 5.1: DeepSeek-V3.2's attention with an indexer, GLM's tokens, and blocks for
// multi-token prediction, which are kept.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  SHARD_TRY(
      HfFamily family,
      MakeDeepseek2(model, {.architecture = "glm-dsa", .indexer = true, .selection_bias = true}));
  AddGlmRules(family);
  return ConvertHf(model, family, options);
}

// llama.cpp's graph without attention.indexer.types: in files with so long a context, layers share
// as in GLM-5.2; in others each has its own.
constexpr uint32_t kSharedContext = 1u << 20;

void Fill(SpecKeys& keys, ModelSpec& spec) {
  FillDeepseek2(keys, spec);
  IndexerShape& shape = spec.indexer;
  shape.heads = keys.Required("attention.indexer.head_count");
  shape.width = keys.Required("attention.indexer.key_length");
  shape.top_k = keys.Required("attention.indexer.top_k");
  shape.dims = spec.rope.dims;
  if (!keys.status()) return;
  if (shape.width < shape.dims)
    keys.Refuse("attention.indexer.key_length", Cat("at least ", shape.dims), Cat(shape.width));
  if (uint64_t{shape.heads} * shape.width > INT32_MAX)
    keys.Refuse("attention.indexer.head_count", "heads that fit", Cat(shape.heads));
  for (const auto& [key, value] : {std::pair("head_count", shape.heads), {"top_k", shape.top_k}})
    if (value == 0) keys.Refuse(Cat("attention.indexer.", key), "at least 1", "0");
  const std::vector<bool> own = keys.Flags("attention.indexer.types", spec.layers);
  for (uint32_t layer = 0; layer < spec.layers; ++layer) {
    const bool usual = spec.context < kSharedContext || layer < 3 || (layer - 2) % 4 == 0;
    spec.layer[layer].own_indexer = own.empty() ? usual : own[layer];
  }
  if (!spec.layer[0].own_indexer)
    keys.Refuse("attention.indexer.types", "an indexer in the first layer", "none");
}

constexpr std::string_view kArchitectures[] = {"GlmMoeDsaForCausalLM"};
constexpr std::string_view kModelTypes[] = {"glm_moe_dsa"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' GlmMoeDsaConfig
    {R"({"rope_theta": 1000000, "rms_norm_eps": 1e-5, "n_shared_experts": 1,
        "first_k_dense_replace": 3})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph, .routing = kSigmoidOfKeys, .cards = CardConvention::kWithoutTables},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "GLM-5", Fill},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"glm5", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::glm5
