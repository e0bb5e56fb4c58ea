// Granite 3 MoE: packed experts without "experts" in the name, input_linear [expert, 2 * ff,
// hidden] (gate rows, then up rows) and output_linear; the Shared variant adds shared_mlp. Names:
// the index of granite-3.1-1b-a400m-instruct.
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/granite_rows.h"
#include "libshard/families/name_rows.h"

namespace moepack::granite_moe {
namespace {

constexpr const char* kGraph = "granitemoe";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.all_moe = true, .square_heads = true, .plain_width = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddGraniteMoe(family, "layers.{L}.");
  family.promise = {.complete = true};
  return family;
}

// Granite 3 MoE, with and without shared experts: queries and keys permuted as Mixtral's, packed
// experts, and four multipliers.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = kGraph;
  family.pre = "refact";
  family.rope.llama3 = true;
  family.keys = AddGraniteKeys;
  family.check = CheckGraniteShared;
  family.vocabulary = ReadSentencePieceOrBpe;
  family.tokenizer_keys = AddGraniteTokenizerKeys;
  AddModelRows(family);
  AddAttentionRows(family, {RowOrder::kRope, RowOrder::kRopeKv, /*biases=*/true});
  AddGraniteMoeRows(family);
  return ConvertHf(model, family, options);
}

void Fill(SpecKeys& keys, ModelSpec& spec) {
  spec.rope.pairing = Pairing::kNeighbours;
  ReadGraniteScales(keys, spec);
}

constexpr std::string_view kArchitectures[] = {"GraniteMoeForCausalLM",
                                               "GraniteMoeSharedForCausalLM"};
constexpr std::string_view kModelTypes[] = {"granitemoe", "granitemoeshared"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' GraniteMoeConfig
    {R"({"rms_norm_eps": 1e-6, "rope_theta": 10000, "embedding_multiplier": 1,
        "logits_scaling": 1, "residual_multiplier": 1, "attention_multiplier": 1})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph, .routing = kSoftmaxNormalized},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "Granite-MoE", Fill},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"granite-moe", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::granite_moe
