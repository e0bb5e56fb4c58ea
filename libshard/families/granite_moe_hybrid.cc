// Granite 4 hybrid (H-Tiny, H-Small): Granite's MoE between Mamba-2 and attention layers. Names:
// mergekit's template.
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/granite_rows.h"
#include "libshard/families/mamba_rows.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/layer_fields.h"

namespace moepack::granite_moe_hybrid {
namespace {

constexpr const char* kGraph = "granitehybrid";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.all_moe = true, .square_heads = true, .plain_width = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddTrunk(family, "mamba", {"layers.{L}.mamba.{**}"});
  AddGraniteMoe(family, "layers.{L}.");
  return family;
}

Result<std::vector<LayerKind>> ReadKinds(const HfConfig& config, const HfShape& shape) {
  return ReadBlockKinds(config, shape, fields::kLayerTypes, {LayerKind::kMamba, LayerKind::kFull});
}

// The runtime stops the process that loads a model with Mamba layers of another width.
Status CheckMambaWidth(const HfConfig& config, const HfShape& shape) {
  SHARD_TRY(const uint32_t heads, config.U32(fields::kMambaHeads));
  SHARD_TRY(const uint32_t width, config.U32(fields::kMambaHeadSize));
  const uint64_t expected = 2 * uint64_t{shape.hidden}, found = uint64_t{heads} * width;
  if (found == expected) return Ok();
  return CannotHold(config, Cat(config.Find(fields::kMambaHeads)->path, " times ",
                                config.Find(fields::kMambaHeadSize)->path, ": expected ", expected,
                                ", twice hidden_size, found ", found));
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_TRY(const std::vector<LayerKind> kinds, ReadKinds(config, shape));
  SHARD_CHECK(CheckMambaWidth(config, shape));
  SHARD_CHECK(CheckWord(config, {"position_embedding_type"}, {"nope"}));
  SHARD_CHECK(AddGraniteKeys(config, shape, keys));
  keys.U32("context_length", kMambaContext);
  // The runtime rotates nothing then.
  keys.Bool("rope.scaling.finetuned", false);
  std::vector<int32_t> key_heads;
  for (const LayerKind kind : kinds)
    key_heads.push_back(kind == LayerKind::kFull ? static_cast<int32_t>(shape.kv_heads) : 0);
  keys.I32s("attention.head_count_kv", key_heads);
  return AddMambaKeys(config, keys);
}

Status Check(const HfConfig& config, const HfShape& shape, const std::vector<GgufTensor>& tensors) {
  SHARD_TRY(const std::vector<LayerKind> kinds, ReadKinds(config, shape));
  const std::vector<const char*> mamba(std::begin(kMambaNames), std::end(kMambaNames));
  SHARD_CHECK(CheckKindTensors(
      config, kinds,
      {{LayerKind::kMamba, mamba},
       {LayerKind::kFull,
        {"attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_output.weight"}}},
      tensors));
  return CheckGraniteShared(config, shape, tensors);
}

// Granite 4 hybrid: Mamba-2 layers and some of attention without positions, whose queries and keys
// are permuted nevertheless; experts beside a shared MLP in every layer; four multipliers.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = kGraph;
  family.pre = "refact";
  family.heads = ReadMambaGroups;
  family.keys = AddKeys;
  family.check = Check;
  family.vocabulary = ReadSentencePieceOrBpe;
  AddModelRows(family);
  AddAttentionRows(family, {RowOrder::kRope, RowOrder::kRopeKv, /*biases=*/true});
  for (TensorRow& row : family.rows) row.optional = row.source.starts_with("layers.{L}.self_attn.");
  AddMambaRows(family, "layers.{L}.mamba.");
  AddGraniteMoeRows(family);
  return ConvertHf(model, family, options);
}

// A layer without key heads is a Mamba layer.
void Fill(SpecKeys& keys, ModelSpec& spec) {
  ReadMamba(keys, spec);
  ReadGraniteScales(keys, spec);
  spec.rope.pairing = Pairing::kNeighbours;
  const bool rope = keys.Bool("rope.scaling.finetuned", false);
  for (LayerSpec& layer : spec.layer) {
    layer.rope = rope;
    layer.recurrent = layer.key_heads == 0;
  }
}

constexpr std::string_view kArchitectures[] = {"GraniteMoeHybridForCausalLM"};
constexpr std::string_view kModelTypes[] = {"granitemoehybrid"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' GraniteMoeHybridConfig
    {R"({"rms_norm_eps": 1e-6, "rope_theta": 10000, "embedding_multiplier": 1,
        "logits_scaling": 1, "residual_multiplier": 1, "attention_multiplier": 1,
        "shared_intermediate_size": 1024, "mamba_d_conv": 4, "mamba_d_state": 256,
        "mamba_n_groups": 1, "mamba_n_heads": 128})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph, .routing = kSoftmaxNormalized},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "Granite 4 hybrid", Fill, /*layers_without_heads=*/true},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"granite-moe-hybrid", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::granite_moe_hybrid
