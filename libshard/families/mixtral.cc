// Mixtral 8x7B and 8x22B and their fine-tunes: every layer has experts,
// block_sparse_moe.experts.E.{w1,w2,w3}. transformers 5 saves them packed under mlp. Names: index
// files of Mixtral-8x7B and WizardLM-2-8x22B.
#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/convert/tokenizers/special_tokens.h"
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"

namespace moepack::mixtral {
namespace {

constexpr const char* kGraph = "llama";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.all_moe = true, .square_heads = true, .plain_width = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.block_sparse_moe.gate");
  AddExperts(family, "layers.{L}.block_sparse_moe.", kW123);
  AddRouter(family, "layers.{L}.mlp.gate");
  AddExperts(family, "layers.{L}.mlp.");
  family.promise = {.complete = true};
  return family;
}

constexpr float kDefaultTheta = 1e6f;  // transformers' MixtralConfig

Status AddKeys(const HfConfig&, const HfShape& shape, ArchKeys& keys) {
  keys.U32("vocab_size", shape.vocabulary);
  keys.U32("rope.dimension_count", shape.head_size);
  return Ok();
}

// Mixtral is architecture "llama" with experts: queries and keys are permuted for its rope; w1 is
// gate, w3 is up, w2 is down.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = kGraph;
  family.rope = {.default_theta = kDefaultTheta, .llama3 = true};
  family.keys = AddKeys;
  family.vocabulary = ReadSentencePieceOrBpe;
  family.tokenizer_keys = AddSpacePrefix;
  AddModelRows(family);
  AddAttentionRows(family, {RowOrder::kRope, RowOrder::kRopeKv, /*biases=*/true});
  family.rows.push_back({"layers.{L}.post_attention_layernorm.weight", "blk.{L}.ffn_norm.weight"});
  for (const char* gate : {"block_sparse_moe.gate", "mlp.gate"}) {
    family.rows.push_back({Cat("layers.{L}.", gate, ".weight"), "blk.{L}.ffn_gate_inp.weight"});
  }
  AddExpertRows(family, "layers.{L}.block_sparse_moe.experts.", {"w1", "w3", "w2"});
  // The form that transformers 5 saves.
  AddFusedExpertRows(family, "layers.{L}.mlp.experts.");
  return ConvertHf(model, family, options);
}

void Fill(SpecKeys& keys, ModelSpec& spec) {
  spec.rope.pairing = Pairing::kNeighbours;
  const float scale = keys.Float("attention.scale", 0);
  if (scale != 0) spec.attention_scale = scale;
}

constexpr std::string_view kArchitectures[] = {"MixtralForCausalLM"};
constexpr std::string_view kModelTypes[] = {"mixtral"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' MixtralConfig
    {R"({"num_key_value_heads": 8, "num_experts_per_tok": 2})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph, .routing = kSoftmaxNormalized},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "Mixtral", Fill},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"mixtral", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::mixtral
