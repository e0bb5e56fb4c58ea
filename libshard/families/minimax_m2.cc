// MiniMax-M2, M2.5, M2.7: sigmoid scores; the selection bias is under block_sparse_moe, not under
// the gate. The announced MTP modules are not in the files. Transformers 5 saves the same under
// mlp, with fused experts. Names: ModelOpt's list for M2.5, llama.cpp's tensor map.
#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"

namespace moepack::minimax_m2 {
namespace {

constexpr const char* kGraph = "minimax-m2";  // general.architecture

// Of routers and experts: in the files of the release, and as transformers 5 saves them.
constexpr const char* kPlaces[] = {"layers.{L}.block_sparse_moe.", "layers.{L}.mlp."};

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  family.facts = {.all_moe = true, .plain_width = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  for (const char* at : kPlaces) {
    AddRouter(family, Cat(at, "gate"));
    AddSelectionBias(family, Cat(at, "e_score_correction_bias"));
    AddExperts(family, at, kW123);
  }
  family.cards = CardConvention::kWithoutEmbedding;
  family.promise = {.complete = true,
                    .f32_router = true,
                    .output_bias = false,
                    .query_key_norms = {fields::kQueryKeyNorms, true},
                    .whole_norms = true};
  return family;
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_TRY(const uint32_t rotated, RotatedSize(config, shape.head_size));
  keys.U32("rope.dimension_count", rotated);
  SHARD_TRY(const uint32_t width, config.U32(fields::ExpertWidth(config)));
  // The first sizes the experts, the second has to be there.
  keys.U32("feed_forward_length", width);
  keys.U32("expert_feed_forward_length", width);
  return Ok();
}

// MiniMax-M2, M2.5 and M2.7: norms over whole queries and keys, sigmoid scores with a selection
// bias, experts in every layer; w1 is gate, w3 is up, w2 is down.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = kGraph;
  family.pre = "minimax-m2";
  family.needs_output = true;
  family.keys = AddKeys;
  AddModelRows(family);
  AddAttentionRows(family);
  AddQueryKeyNormRows(family);
  family.rows.push_back({"layers.{L}.post_attention_layernorm.weight", "blk.{L}.ffn_norm.weight"});
  for (const char* at : kPlaces) {
    family.rows.push_back({Cat(at, "gate.weight"), "blk.{L}.ffn_gate_inp.weight"});
    family.rows.push_back({Cat(at, "e_score_correction_bias"), "blk.{L}.exp_probs_b.bias"});
    AddExpertRows(family, Cat(at, "experts.").c_str(), {"w1", "w3", "w2"});
    AddFusedExpertRows(family, Cat(at, "experts.").c_str());
  }
  return ConvertHf(model, family, options);
}

void Fill(SpecKeys&, ModelSpec& spec) { spec.norm_whole_projection = true; }

constexpr std::string_view kArchitectures[] = {"MiniMaxM2ForCausalLM"};
constexpr std::string_view kModelTypes[] = {"minimax_m2"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' MiniMaxM2Config
    {R"({"rope_theta": 5000000, "rms_norm_eps": 1e-6, "head_dim": 128})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph,
     .routing = {{.gating = Gating::kSigmoid,
                  .normalize = true,
                  .reads_gating = true,
                  .needs_gating = true}},
     .cards = CardConvention::kWithoutEmbedding},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "MiniMax-M2", Fill},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"minimax-m2", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::minimax_m2
