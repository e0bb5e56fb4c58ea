// Hunyuan-A13B: the router is mlp.gate.wg, the shared expert mlp.shared_mlp; the config gives top-k
// and widths as lists with one entry per layer. Names: llama.cpp's tensor map; config only here.
#include <algorithm>
#include <cmath>

#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/layer_fields.h"

namespace moepack::hunyuan_moe {
namespace {

constexpr const char* kGraph = "hunyuan-moe";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.all_moe = true, .square_heads = true, .shared_of_experts = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.mlp.gate.wg");
  AddExperts(family, "layers.{L}.mlp.");
  AddSharedExpert(family, "layers.{L}.mlp.shared_mlp.");
  AddDenseMlp(family, "layers.{L}.mlp.");
  family.promise = {.complete = true,
                    .f32_router = true,
                    .output_bias = false,
                    .query_key_norms = {fields::kQueryKeyNorms},
                    .layer_norms = true};
  return family;
}

// The only scaling that llama.cpp's converter supports: the base grows with `alpha`, and the
// context is 256k whatever the config says.
constexpr float kAlpha = 1000, kBase = 10000;
constexpr uint32_t kContext = 256 * 1024;

Status AddRope(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_TRY(const HfConfig rope, config.Rope());
  SHARD_TRY(const std::optional<std::string> type, rope.FindString(fields::kRopeType));
  if (type != "dynamic") return Ok();
  SHARD_TRY(const std::optional<float> alpha, rope.FindF32({"alpha"}));
  SHARD_TRY(const std::optional<float> theta, rope.FindF32(fields::kRopeBase));
  if (alpha.value_or(kAlpha) != kAlpha || theta.value_or(kBase) != kBase) {
    return CannotHold(
        config, Cat("rope scaling: expected alpha ", kAlpha, " and rope_theta ", kBase, ", found ",
                    alpha.value_or(kAlpha), " and ", theta.value_or(kBase)));
  }
  const double head = shape.head_size;
  if (head <= 2) {
    const bool own = config.Has(fields::kHeadSize);
    return config.Wrong(*config.Find(own ? fields::kHeadSize : fields::kHiddenSize),
                        "larger heads");
  }
  // "NTK-aware" scaling: base * alpha ^ (d / (d - 2)).
  keys.F32("rope.freq_base",
           static_cast<float>(double{kBase} * std::pow(double{kAlpha}, head / (head - 2))));
  keys.String("rope.scaling.type", "none");
  keys.F32("rope.scaling.factor", 1);
  keys.U32("rope.scaling.original_context_length", kContext);
  keys.U32("context_length", kContext);
  return Ok();
}

// What the runtime has in no other form.
Status CheckShape(const HfConfig& config) {
  for (const ConfigKeys flag : {ConfigKeys{"use_cla"}, fields::kUsesLatent}) {
    SHARD_TRY(const std::optional<bool> value, config.FindBool(flag));
    if (value.value_or(false)) {
      return CannotHold(config, Cat(*flag.begin(), ": expected false, found true"));
    }
  }
  return Ok();
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_CHECK(CheckShape(config));
  SHARD_TRY(const uint32_t width, config.U32(fields::kPlainWidth));
  SHARD_TRY(const std::optional<uint32_t> own, config.FindSameU32(fields::kExpertWidth));
  if (own.value_or(width) != width) {
    return CannotHold(config, Cat("moe_intermediate_size: expected intermediate_size (", width,
                                  "), by which the runtime sizes the experts, found ", *own));
  }
  SHARD_TRY(const std::optional<uint32_t> shared, config.FindSameU32(fields::kSharedExperts));
  if (shared.value_or(1) != 1) {
    return CannotHold(config, Cat("num_shared_expert: expected 1, found ", *shared));
  }
  keys.U32("expert_shared_feed_forward_length", width);
  keys.U32("expert_feed_forward_length", width);
  keys.U32("expert_shared_count", 1);
  return AddRope(config, shape, keys);
}

// llama.cpp's converter uses the id of this text, whatever the files say.
Status AddTokenizerKeys(const TokenizerFiles& /*files*/, const Vocabulary& vocabulary,
                        GgufMetadata& metadata) {
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.tokens[id] != "<|bos|>") continue;
    metadata.Set("tokenizer.ggml.bos_token_id", GgufValue::U32(static_cast<uint32_t>(id)));
  }
  return Ok();
}

// Hunyuan-A13B: experts in every layer beside a shared MLP, norms on queries and keys after the
// rope, and a config that repeats the same number for every layer.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = kGraph;
  family.pre = "hunyuan";
  family.rope.own_dynamic = true;
  family.keys = AddKeys;
  family.vocabulary = ReadHunyuanRanksOrBpe;
  family.tokenizer_keys = AddTokenizerKeys;
  AddModelRows(family);
  AddAttentionRows(family);
  const auto add = [&](const std::string& source, const std::string& target) {
    family.rows.push_back(
        {Cat("layers.{L}.", source, ".weight"), Cat("blk.{L}.", target, ".weight")});
  };
  add("self_attn.query_layernorm", "attn_q_norm");
  add("self_attn.key_layernorm", "attn_k_norm");
  add("post_attention_layernorm", "ffn_norm");
  add("mlp.gate.wg", "ffn_gate_inp");
  AddExpertRows(family, "layers.{L}.mlp.experts.", {"gate_proj", "up_proj", "down_proj"});
  AddFusedExpertRows(family, "layers.{L}.mlp.experts.");
  for (const char* part : {"gate", "up", "down"}) {
    add(Cat("mlp.shared_mlp.", part, "_proj"), Cat("ffn_", part, "_shexp"));
  }
  return ConvertHf(model, family, options);
}

void Fill(SpecKeys&, ModelSpec& spec) { spec.norm_after_rope = true; }

constexpr std::string_view kArchitectures[] = {"HunYuanMoEV1ForCausalLM"};
constexpr std::string_view kModelTypes[] = {"hunyuan_v1_moe", "hunyuan"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' HunYuanMoEV1Config
    {R"({"rope_theta": 10000, "rms_norm_eps": 1e-5})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph, .routing = kSoftmaxNormalized},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "Hunyuan-A13B", Fill},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"hunyuan-moe", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::hunyuan_moe
