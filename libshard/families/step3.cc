// Step-3.5 and 3.7 Flash: packed experts under "moe" (moe.gate_proj.weight [expert, ff, hidden]),
// the selection bias moe.router_bias, the shared expert "share_expert" beside it; MTP blocks are
// dense layers after the last. Quantized releases write moe.experts.E, MLX mlp.switch_mlp. Names:
// published readers of both checkpoints, llama.cpp's tensor map; config only here.
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/layer_fields.h"

namespace moepack::step3 {
namespace {

constexpr const char* kGraph = "step35";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.moe.gate");
  AddSelectionBias(family, "layers.{L}.moe.router_bias");
  AddPackedExperts(family, "layers.{L}.moe.");
  AddExplicitExperts(family, "layers.{L}.moe.experts.");
  AddSharedExpert(family, "layers.{L}.share_expert.");
  AddRouter(family, "layers.{L}.mlp.gate.gate");
  AddSelectionBias(family, "layers.{L}.mlp.gate.router_bias");
  AddPackedExperts(family, "layers.{L}.mlp.switch_mlp.");
  AddSharedExpert(family, "layers.{L}.mlp.share_expert.");
  AddDenseMlp(family, "layers.{L}.mlp.");
  AddMtpExtras(family, "layers.{L}.");
  AddTrunk(family, "mtp", {"layers.{L}.transformer.shared_head.{**}"});
  AddTowers(family);
  return family;
}

// The runtime rotates half of a head with full attention, and all of one with a window.
Status CheckRotation(const HfConfig& config, const std::vector<bool>& windowed) {
  SHARD_TRY(const std::vector<float> parts, config.FindF32s({"partial_rotary_factors"}));
  for (size_t i = 0; i < windowed.size() && i < parts.size(); ++i) {
    const float expected = windowed[i] ? 1.0f : 0.5f;
    if (parts[i] == expected) continue;
    return CannotHold(config, Cat("partial_rotary_factors: expected ", expected, " in layer ", i,
                                  ", found ", parts[i]));
  }
  return Ok();
}

struct HeadCounts {
  uint32_t query = 0, key = 0;
};

Result<HeadCounts> WindowHeads(const HfConfig& config, const HeadCounts& full) {
  const auto other = config.Find(fields::kOtherAttention);
  if (!other) return full;
  SHARD_TRY(const HfConfig own, config.Within(*fields::kOtherAttention.begin()));
  SHARD_TRY(const std::optional<uint32_t> query, own.FindU32(fields::kHeads));
  SHARD_TRY(const std::optional<uint32_t> key, own.FindU32(fields::kKeyHeads));
  const HeadCounts heads{query.value_or(full.query), key.value_or(full.key)};
  if (heads.key > 0 && heads.query % heads.key == 0) return heads;
  return config.Wrong(*other, "a number of groups that divides that of heads");
}

Status AddHeads(const HfConfig& config, const HfShape& shape, const std::vector<bool>& windowed,
                ArchKeys& keys) {
  const HeadCounts full{shape.heads, shape.kv_heads};
  SHARD_TRY(const HeadCounts window, WindowHeads(config, full));
  keys.I32s("attention.head_count", ByWindow(windowed, window.query, full.query));
  keys.I32s("attention.head_count_kv", ByWindow(windowed, window.key, full.key));
  keys.U32("attention.key_length", shape.head_size);
  keys.U32("attention.value_length", shape.head_size);
  return Ok();
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_TRY(const std::vector<bool> windowed, ReadWindowed(config, shape, fields::kLayerTypes));
  SHARD_CHECK(CheckRotation(config, windowed));
  SHARD_CHECK(AddHeads(config, shape, windowed, keys));
  SHARD_CHECK(AddWindowKey(config, keys));
  keys.Bools("attention.sliding_window_pattern", windowed);
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  SHARD_TRY(const uint32_t shared, config.U32(fields::kSharedWidth));
  keys.U32("expert_feed_forward_length", width);
  keys.U32("expert_shared_feed_forward_length", shared);
  SHARD_CHECK(AddLimits(config, shape, "swiglu_limits", "swiglu_clamp_exp", keys));
  return AddLimits(config, shape, "swiglu_limits_shared", "swiglu_clamp_shexp", keys);
}

void AddRows(HfFamily& family) {
  const std::string at = "layers.{L}.", to = "blk.{L}.";
  const auto add = [&](const std::string& source, const std::string& target, bool optional,
                       ValueRule rule = ValueRule::kNone) {
    family.rows.push_back({.source = source + ".weight",
                           .target = target + ".weight",
                           .optional = optional,
                           .rule = rule});
  };
  add("embed_tokens", "token_embd", false);
  add("norm", "output_norm", false, ValueRule::kPlusOne);
  add("lm_head", "output", false);
  add(at + "input_layernorm", to + "attn_norm", false, ValueRule::kPlusOne);
  for (const char* part : {"q", "k", "v"})
    add(Cat(at, "self_attn.", part, "_proj"), Cat(to, "attn_", part), false);
  add(at + "self_attn.o_proj", to + "attn_output", false);
  add(at + "self_attn.g_proj", to + "attn_gate", true);
  for (const char* part : {"q", "k"})
    add(Cat(at, "self_attn.", part, "_norm"), Cat(to, "attn_", part, "_norm"), true,
        ValueRule::kPlusOne);
  add(at + "post_attention_layernorm", to + "ffn_norm", false, ValueRule::kPlusOne);
  add(at + "moe.gate", to + "ffn_gate_inp", true);
  AddOptionalRow(family, at + "moe.router_bias", to + "exp_probs_b.bias");
  for (const char* part : {"gate", "up", "down"}) {
    add(Cat(at, "mlp.", part, "_proj"), Cat(to, "ffn_", part), true);
    add(Cat(at, "moe.", part, "_proj"), Cat(to, "ffn_", part, "_exps"), true);
    add(Cat(at, "share_expert.", part, "_proj"), Cat(to, "ffn_", part, "_shexp"), true);
  }
}

void AddPredictionRows(HfFamily& family) {
  const auto add = [&](const char* source, const char* target, ValueRule rule, bool optional) {
    family.rows.push_back({.source = Cat("layers.{L}.", source, ".weight"),
                           .target = Cat("blk.{L}.nextn.", target, ".weight"),
                           .optional = optional,
                           .rule = rule,
                           .mtp = true});
  };
  add("eh_proj", "eh_proj", ValueRule::kNone, false);
  add("enorm", "enorm", ValueRule::kPlusOne, false);
  add("hnorm", "hnorm", ValueRule::kPlusOne, false);
  add("embed_tokens", "embed_tokens", ValueRule::kNone, true);
  add("transformer.shared_head.output", "shared_head_head", ValueRule::kNone, true);
  add("transformer.shared_head.norm", "shared_head_norm", ValueRule::kPlusOne, true);
}

// Step-3.5-Flash: layers with a window have more query heads and a different rope base from those
// with full attention, which rotate half of a head; each head's result has a gate; norms store the
// difference from one; sigmoid scores with a selection bias; dense blocks for multi-token
// prediction.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  if (model.config().architecture != "Step3p5ForCausalLM") {
    return Error{
        Code::kUnsupported,
        Cat(model.config_path().string(), ": architectures: expected Step3p5ForCausalLM, found ",
            Quoted(model.config().architecture), ", which only llama.cpp's own converter reads"),
        kNoGgufHint};
  }
  HfFamily family;
  family.architecture = kGraph;
  family.pre = "deepseek-v3";
  family.needs_output = true;
  family.all_layers_moe = false;
  family.keeps_mtp = true;
  family.rope.llama3 = true;
  family.rope.window_base = true;
  family.keys = AddKeys;
  AddRows(family);
  AddPredictionRows(family);
  return ConvertHf(model, family, options);
}

void Fill(SpecKeys& keys, ModelSpec& spec) {
  const uint32_t window = keys.Required("attention.sliding_window");
  const std::vector<bool> windowed = keys.Flags("attention.sliding_window_pattern", spec.layers);
  if (windowed.empty()) {
    keys.Refuse("attention.sliding_window_pattern", "a list of bools", "none");
    return;
  }
  spec.local_rope = spec.rope;
  spec.local_rope.base = keys.Float("rope.freq_base_swa", spec.rope.base);
  if (spec.rope.dims % 4 != 0)
    keys.Refuse("rope.dimension_count", "a multiple of 4", Cat(spec.rope.dims));
  spec.rope.dims /= 2;  // llama.cpp halves it for layers with full attention
  for (uint32_t layer = 0; layer < spec.layers; ++layer) {
    if (!windowed[layer]) continue;
    spec.layer[layer].window = window;
    spec.layer[layer].local_rope = true;
  }
  ReadLimits(keys, "swiglu_clamp_exp", &LayerSpec::expert_limit, spec);
  ReadLimits(keys, "swiglu_clamp_shexp", &LayerSpec::mlp_limit, spec);
}

constexpr std::string_view kArchitectures[] = {"Step3p5ForCausalLM", "Step3p7FlashForCausalLM",
                                               "Step3p7ForConditionalGeneration"};
constexpr std::string_view kModelTypes[] = {"step3p5", "step3p7"};

constexpr ConfigDefault kDefaults[] = {
    // configuration_step3p5.py of Step-3.5-Flash
    {R"({"rms_norm_eps": 1e-5})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph, .routing = kSigmoidOfKeys},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "Step-3.5", Fill},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"step3", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::step3
