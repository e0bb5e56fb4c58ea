// OLMoE-1B-7B: the names of Qwen3-MoE; the chosen weights are not normalised. Names: transformers
// (Olmoe), llama.cpp's tensor map.
#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"

namespace moepack::olmoe {
namespace {

constexpr const char* kGraph = "olmoe";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = false};
  family.facts = {.all_moe = true, .square_heads = true, .plain_width = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.mlp.gate");
  AddExperts(family, "layers.{L}.mlp.");
  family.promise = {
      .complete = true, .output_bias = false, .query_key_norms = {{}, true}, .whole_norms = true};
  return family;
}

// llama.cpp's converter writes this value whatever the config says.
constexpr float kEpsilon = 1e-5f;

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_CHECK(CheckSquareHeads(config, shape));
  if (shape.kv_heads != shape.heads) {
    return Error{
        Code::kUnsupported,
        Cat(config.where(), ": num_key_value_heads: expected ", shape.heads,
            " as num_attention_heads, since the runtime's norm of keys is as wide as that ",
            "of queries, found ", shape.kv_heads)};
  }
  if (const auto clip = config.Find({"clip_qkv"})) {
    return Error{Code::kUnsupported, Cat(config.where(), ": ", clip->path,
                                         ": expected null, since the runtime does not clip, found ",
                                         DescribeJson(*clip->value))};
  }
  keys.U32("attention.head_count_kv", shape.kv_heads);
  keys.F32("attention.layer_norm_rms_epsilon", kEpsilon);
  return Ok();
}

// OLMoE: norms over the whole projections of queries and keys, router weights never renormalised.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = kGraph;
  family.pre = "olmo";
  family.needs_output = true;
  family.keys = AddKeys;
  AddModelRows(family);
  AddAttentionRows(family);
  AddQueryKeyNormRows(family);
  family.rows.push_back({"layers.{L}.post_attention_layernorm.weight", "blk.{L}.ffn_norm.weight"});
  family.rows.push_back({"layers.{L}.mlp.gate.weight", "blk.{L}.ffn_gate_inp.weight"});
  AddExpertRows(family, "layers.{L}.mlp.experts.", {"gate_proj", "up_proj", "down_proj"});
  AddFusedExpertRows(family, "layers.{L}.mlp.experts.");
  return ConvertHf(model, family, options);
}

void Fill(SpecKeys&, ModelSpec& spec) { spec.norm_whole_projection = true; }

constexpr std::string_view kArchitectures[] = {"OlmoeForCausalLM"};
constexpr std::string_view kModelTypes[] = {"olmoe"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' OlmoeConfig
    {R"({"rms_norm_eps": 1e-5, "rope_theta": 10000})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph, .routing = kSoftmaxPlain},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "OLMoE", Fill},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"olmoe", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::olmoe
