// Llama-4 Scout and Maverick: packed experts [expert, hidden, 2 * ff] without a leaf; Maverick has
// a dense feed_forward on every second layer; each MoE layer has a shared expert. The sigmoid of
// the chosen logits scales the expert's input. Names: mergekit's template; explicit ones in FP8
// releases.
#include <algorithm>

#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/config_layers.h"
#include "libshard/model/gguf_architectures.h"
#include "libshard/model/layer_fields.h"

namespace moepack::llama4 {
namespace {

constexpr const char* kGraph = "llama4";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoidAfterTopK, .normalize = false};
  family.facts = {.plain_width = true, .transposed = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.feed_forward.router");
  AddExperts(family, "layers.{L}.feed_forward.");
  AddSharedExpert(family, "layers.{L}.feed_forward.shared_expert.");
  AddDenseMlp(family, "layers.{L}.feed_forward.");
  AddTowers(family);
  family.promise = {.complete = true, .always_shared = true};
  return family;
}

// The runtime reads no key for either.
Status CheckAttention(const HfConfig& config) {
  SHARD_TRY(const uint32_t experts, config.U32(fields::kExperts));
  SHARD_TRY(const std::optional<bool> norm, config.FindBool(fields::kQueryKeyNorms));
  const bool runtime = experts != FindArchitecture(kGraph)->experts_without_norm;
  if (norm.value_or(true) != runtime) {
    return CannotHold(config, Cat("use_qk_norm: expected ", runtime ? "true" : "false",
                                  ", as the runtime has it for ", Plural(experts, "expert"),
                                  ", found ", runtime ? "false" : "true"));
  }
  SHARD_TRY(const HfShape shape, ReadShape(config));
  ConfigFaults ignored;  // the check reports them
  SHARD_TRY(const LayerKinds kinds, ReadLayerKinds(config, {shape.layers, 0}, ignored));
  const bool full = std::all_of(kinds.layers.begin(), kinds.layers.end(),
                                [](const NamedKind& one) { return one.kind == LayerKind::kFull; });
  if (!full) return Ok();
  return CannotHold(
      config, Cat(kinds.field, ": expected chunked attention in three layers of four, which the ",
                  "runtime always has, found full attention in all"));
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_TRY(const uint32_t dense, config.U32(fields::DenseWidth(config)));
  keys.U32("feed_forward_length", dense);
  SHARD_TRY(const uint32_t width, config.U32(fields::ExpertWidth(config)));
  keys.U32("expert_feed_forward_length", width);
  SHARD_TRY(const uint32_t step, config.U32(fields::kInterleaved));
  keys.U32("interleave_moe_layer_step", step);
  keys.U32("vocab_size", shape.vocabulary);
  keys.U32("rope.dimension_count", shape.head_size);
  keys.U32("attention.key_length", shape.head_size);
  keys.U32("attention.value_length", shape.head_size);
  return Ok();
}

// Head sizes need nothing special; what the runtime cannot do is refused here, before any tensor is
// looked at.
Status CheckHeads(const HfConfig& config, HeadShape&) { return CheckAttention(config); }

Status Check(const HfConfig& config, const HfShape& shape, const std::vector<GgufTensor>& tensors) {
  SHARD_TRY(const uint32_t step, config.U32(fields::kInterleaved));
  if (step == 0) return config.Wrong(*config.Find(fields::kInterleaved), "at least 1");
  MixedLayers layers;
  SHARD_TRY(layers.moe, LayersByRule(config, shape, {.step = step}));
  return CheckMixedLayers(config, layers, tensors);
}

void AddPackedExperts(HfFamily& family) {
  const auto add = [&](const char* source, const char* target, ValueRule rule) {
    family.rows.push_back({.source = Cat("layers.{L}.feed_forward.experts.", source),
                           .target = Cat("blk.{L}.ffn_", target, "_exps.weight"),
                           .optional = true,
                           .rule = rule});
  };
  add("gate_up_proj", "gate", ValueRule::kTransposeFirst);
  add("gate_up_proj", "up", ValueRule::kTransposeSecond);
  add("down_proj", "down", ValueRule::kTranspose);
}

// Llama-4 Scout and Maverick, the text model: packed experts whose matrices are transposed, gate
// and up side by side; in Maverick every second layer is dense.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = kGraph;
  family.pre = "llama4";
  family.rope.llama3 = true;
  family.all_layers_moe = false;
  family.heads = CheckHeads;
  family.keys = AddKeys;
  family.check = Check;
  AddModelRows(family);
  AddAttentionRows(family);
  family.rows.push_back({"layers.{L}.post_attention_layernorm.weight", "blk.{L}.ffn_norm.weight"});
  // Explicit experts that are not transposed are those of the FP8 releases.
  AddMixedRows(family, {"layers.{L}.feed_forward.", "router", "shared_expert", /*fused=*/false});
  AddPackedExperts(family);
  return ConvertHf(model, family, options);
}

// Hard-coded in llama.cpp, like the chunks (gguf_architectures.cc).
constexpr uint32_t kTemperatureFloor = 8192;
constexpr float kTemperature = 0.1f;

void Fill(SpecKeys& keys, ModelSpec& spec) {
  spec.rope.pairing = Pairing::kNeighbours;
  spec.weigh_inputs = true;
  spec.temperature = kTemperature;
  spec.temperature_floor = kTemperatureFloor;
  const GgufArchitecture& graph = *FindArchitecture(keys.architecture());
  spec.norm_heads_after_rope = keys.Uint("expert_count", 0) != graph.experts_without_norm;
  // llama.cpp asks only whether the key is 0; then it aborts.
  if (keys.Uint("attention.sliding_window", 1) == 0)
    return keys.Refuse("attention.sliding_window", "no such key, or more than 0", "0");
  for (uint32_t layer = 0; layer < spec.layers; ++layer) {
    LayerSpec& own = spec.layer[layer];
    own.rope = (layer + 1) % graph.window->period != 0;
    own.chunk = own.rope ? graph.window->tokens : 0;
  }
}

constexpr std::string_view kArchitectures[] = {"Llama4ForConditionalGeneration",
                                               "Llama4ForCausalLM"};
constexpr std::string_view kModelTypes[] = {"llama4", "llama4_text"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' Llama4TextConfig
    {R"({"rope_theta": 500000, "head_dim": 128, "rms_norm_eps": 1e-5,
        "interleave_moe_layer_step": 1, "use_qk_norm": true})"},
};

constexpr uint64_t kMaverickExperts = 128;
constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph,
     .routing = {{.gating = Gating::kSigmoidAfterTopK, .normalize = false}},
     .experts_without_norm = kMaverickExperts,
     .window = {{.period = 4, .tokens = 8192, .reads_key = false}}},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "Llama-4 text", Fill},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"llama4", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::llama4
