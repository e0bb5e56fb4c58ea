#include "libshard/families/qwen_rows.h"

#include <set>
#include <span>
#include <utility>

#include "libshard/base/text/text.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/gguf_architectures.h"
#include "libshard/model/layer_fields.h"

namespace moepack {
namespace {

void ReadDelta(SpecKeys& keys, ModelSpec& spec) {
  DeltaShape& shape = spec.delta;
  shape.kernel = keys.Required("ssm.conv_kernel");
  shape.width = keys.Required("ssm.state_size");
  shape.key_heads = keys.Required("ssm.group_count");
  shape.value_heads = keys.Required("ssm.time_step_rank");
  if (shape.key_heads == 0 || shape.value_heads % shape.key_heads != 0) {
    keys.Refuse("ssm.time_step_rank", Cat("a multiple of ", shape.key_heads),
                Cat(shape.value_heads));
    return;
  }
  // Products of the numbers so far fit in 64 bits (SpecKeys), those of the shape in 32.
  const uint64_t inner = uint64_t{shape.value_heads} * shape.width;
  if (inner != keys.Required("ssm.inner_size") || 3 * inner > UINT32_MAX)
    keys.Refuse("ssm.inner_size", Cat(inner, " (heads x size of the state)"),
                Cat(keys.Uint("ssm.inner_size", 0)));
}

void AddNorm(HfFamily& family, const std::string& source, const std::string& target,
             bool optional = false) {
  family.rows.push_back(
      {source + ".weight", target + ".weight", RowOrder::kAsIs, optional, ValueRule::kPlusOne});
}

// Norms, full attention and experts of the blocks under `at`.
void AddBlockRows(HfFamily& family, const std::string& at) {
  const std::string to = "blk.{L}.";
  AddNorm(family, at + "input_layernorm", to + "attn_norm");
  AddNorm(family, at + "post_attention_layernorm", to + "post_attention_norm");
  AddQwenAttentionRows(family, at);
  AddQwenMoeRows(family, at);
}

void AddMtpRows(HfFamily& family) {
  const std::string to = "blk.{L}.nextn.";
  AddBlockRows(family, "mtp.layers.{L}.");
  family.rows.push_back({"mtp.fc.weight", to + "eh_proj.weight"});
  family.rows.back().mtp = true;
  const std::pair<const char*, const char*> norms[] = {{"pre_fc_norm_embedding", "enorm"},
                                                       {"pre_fc_norm_hidden", "hnorm"},
                                                       {"norm", "shared_head_norm"}};
  for (const auto& [source, target] : norms) {
    AddNorm(family, Cat("mtp.", source), to + target);
    family.rows.back().mtp = true;
  }
}

// Which blocks have linear attention; those for multi-token prediction never do.
Result<std::vector<bool>> LinearBlocks(const HfConfig& config, const HfShape& shape) {
  SHARD_TRY(
      const std::vector<LayerKind> kinds,
      ReadBlockKinds(config, shape, fields::kLayerTypes, {LayerKind::kLinear, LayerKind::kFull}));
  std::vector<bool> linear(kinds.size(), false);
  for (size_t i = 0; i < shape.layers; ++i) linear[i] = kinds[i] == LayerKind::kLinear;
  return linear;
}

// Suffixes of the tensors that only one kind of block has. What produces the queries of linear
// attention differs between the families.
constexpr const char* kFullNames[] = {"attn_q.weight",      "attn_k.weight",
                                      "attn_v.weight",      "attn_output.weight",
                                      "attn_q_norm.weight", "attn_k_norm.weight"};
constexpr const char* kLinearNames[] = {"attn_qkv.weight",   "attn_gate.weight", "ssm_a",
                                        "ssm_conv1d.weight", "ssm_dt.bias",      "ssm_norm.weight",
                                        "ssm_out.weight"};
constexpr const char* kJoinedNames[] = {"ssm_ba.weight"};
constexpr const char* kSplitNames[] = {"ssm_alpha.weight", "ssm_beta.weight"};

Status CheckBlock(const std::string& where, const std::set<std::string_view>& names, uint64_t layer,
                  bool linear) {
  const auto check = [&](std::span<const char* const> suffixes, bool expected) -> Status {
    for (const char* suffix : suffixes) {
      const std::string name = Cat("blk.", layer, ".", suffix);
      if (names.contains(name) == expected) continue;
      return Error{Code::kCorrupt,
                   Cat(where, ": layer ", layer, ": expected ",
                       LayerKindName(linear ? LayerKind::kLinear : LayerKind::kFull),
                       " as the config has it, found ", expected ? "no " : "", name)};
    }
    return Ok();
  };
  SHARD_CHECK(check(kFullNames, !linear));
  SHARD_CHECK(check(kLinearNames, linear));
  // Write strength and decay: one projection (Qwen3-Next) or two.
  const bool joined = names.contains(Cat("blk.", layer, ".ssm_ba.weight"));
  return joined ? check(kJoinedNames, linear) : check(kSplitNames, linear);
}

}  // namespace

void AddQwenHybridRows(HfFamily& family) {
  family.rows.push_back({"embed_tokens.weight", "token_embd.weight"});
  AddNorm(family, "norm", "output_norm");
  family.rows.push_back({"lm_head.weight", "output.weight"});
  AddBlockRows(family, "layers.{L}.");
  AddMtpRows(family);
}

void AddQwenAttentionRows(HfFamily& family, const std::string& at) {
  const std::string to = "blk.{L}.", attention = at + "self_attn.";
  // q_proj is twice as wide: each head's queries, then its gate. The runtime expects this layout.
  for (const auto& [source, target] :
       {std::pair("q_proj", "attn_q"), std::pair("k_proj", "attn_k"), std::pair("v_proj", "attn_v"),
        std::pair("o_proj", "attn_output")}) {
    family.rows.push_back({attention + source + ".weight", Cat(to, target, ".weight"),
                           RowOrder::kAsIs, /*optional=*/true});
  }
  AddNorm(family, attention + "q_norm", to + "attn_q_norm", /*optional=*/true);
  AddNorm(family, attention + "k_norm", to + "attn_k_norm", /*optional=*/true);
}

void AddQwenTiledRows(HfFamily& family) {
  const std::string from = "layers.{L}.linear_attn.", to = "blk.{L}.";
  const auto add = [&](const char* source, const char* target, RowOrder order,
                       ValueRule rule = ValueRule::kNone) {
    family.rows.push_back({from + source, to + target, order, /*optional=*/true, rule});
  };
  add("in_proj_qkv.weight", "attn_qkv.weight", RowOrder::kTiledTail);
  add("in_proj_z.weight", "attn_gate.weight", RowOrder::kTiledHeads);
  add("in_proj_b.weight", "ssm_beta.weight", RowOrder::kTiledHeads);
  add("in_proj_a.weight", "ssm_alpha.weight", RowOrder::kTiledHeads);
  add("conv1d.weight", "ssm_conv1d.weight", RowOrder::kTiledTail, ValueRule::kSqueeze);
  add("A_log", "ssm_a", RowOrder::kTiledHeads, ValueRule::kMinusExp);
  add("dt_bias", "ssm_dt.bias", RowOrder::kTiledHeads);
  add("norm.weight", "ssm_norm.weight", RowOrder::kAsIs);
  add("out_proj.weight", "ssm_out.weight", RowOrder::kAsIs, ValueRule::kTiledColumns);
}

Status ReadQwenHybridHeads(const HfConfig& config, HeadShape& shape) {
  SHARD_TRY(shape.linear_key_heads, config.U32(fields::kLinearKeyHeads));
  SHARD_TRY(shape.linear_value_heads, config.U32(fields::kLinearValueHeads));
  SHARD_TRY(shape.linear_key_size, config.U32(fields::kLinearKeySize));
  SHARD_TRY(shape.linear_value_size, config.U32(fields::kLinearValueSize));
  if (shape.linear_key_heads == 0 || shape.linear_value_heads == 0 ||
      shape.linear_value_heads % shape.linear_key_heads != 0) {
    return Error{
        Code::kCorrupt,
        Cat(config.where(), ": linear_num_value_heads: expected a multiple of ",
            shape.linear_key_heads, " (linear_num_key_heads), found ", shape.linear_value_heads)};
  }
  if (shape.linear_key_size == shape.linear_value_size && shape.linear_key_size > 0) return Ok();
  return Error{Code::kUnsupported,
               Cat(config.where(), ": linear_value_head_dim: expected ", shape.linear_key_size,
                   " as linear_key_head_dim, which the runtime takes for both, found ",
                   shape.linear_value_size),
               kNoGgufHint};
}

Status AddQwenHybridKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_CHECK(AddQwenMoeKeys(config, keys));
  HeadShape heads;
  SHARD_CHECK(ReadQwenHybridHeads(config, heads));
  SHARD_TRY(const uint32_t kernel, config.U32(fields::kLinearKernel));
  uint32_t inner = 0;
  if (__builtin_mul_overflow(heads.linear_value_heads, heads.linear_value_size, &inner)) {
    return config.Wrong(*config.Find(fields::kLinearValueSize), "a size of a head");
  }
  keys.U32("ssm.conv_kernel", kernel);
  keys.U32("ssm.state_size", heads.linear_key_size);
  keys.U32("ssm.group_count", heads.linear_key_heads);
  keys.U32("ssm.time_step_rank", heads.linear_value_heads);
  keys.U32("ssm.inner_size", inner);
  // llama.cpp's converter reads the config through transformers, which derives a missing
  // layer_types from the interval.
  SHARD_TRY(const std::vector<bool> linear, LinearBlocks(config, shape));
  keys.Bools("attention.recurrent_layers", linear);
  SHARD_TRY(const uint32_t interval, config.U32(fields::kFullInterval));
  keys.U32("full_attention_interval", interval);
  SHARD_TRY(const HfConfig rope, config.Rope());
  SHARD_TRY(const float rotary, rope.F32(fields::kRotatedPart));
  if (!(rotary > 0 && rotary <= 1)) {
    return rope.Wrong(*rope.Find(fields::kRotatedPart), "a number over 0 and up to 1");
  }
  keys.U32("rope.dimension_count",
           static_cast<uint32_t>(static_cast<double>(shape.head_size) * double{rotary}));
  return Ok();
}

Status CheckQwenHybridBlocks(const HfConfig& config, const HfShape& shape,
                             const std::vector<GgufTensor>& tensors) {
  SHARD_TRY(const std::vector<bool> linear, LinearBlocks(config, shape));
  std::set<std::string_view> names;
  for (const GgufTensor& tensor : tensors) names.insert(tensor.name);
  for (size_t layer = 0; layer < linear.size(); ++layer) {
    SHARD_CHECK(CheckBlock(config.where(), names, layer, linear[layer]));
  }
  return Ok();
}

void AddQwenMoeRows(HfFamily& family, const std::string& at) {
  const std::string mlp = at + "mlp.", to = "blk.{L}.";
  const auto add = [&](const std::string& source, const std::string& target) {
    family.rows.push_back({mlp + source + ".weight", to + target + ".weight"});
  };
  add("gate", "ffn_gate_inp");
  AddExpertRows(family, (mlp + "experts.").c_str(), {"gate_proj", "up_proj", "down_proj"});
  AddFusedExpertRows(family, (mlp + "experts.").c_str());
  for (const char* name : {"gate", "up", "down"}) {
    add(Cat("shared_expert.", name, "_proj"), Cat("ffn_", name, "_shexp"));
  }
  add("shared_expert_gate", "ffn_gate_inp_shexp");
}

Status AddQwenMoeKeys(const HfConfig& config, ArchKeys& keys) {
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  SHARD_TRY(const uint32_t shared, config.U32(fields::kSharedWidth));
  keys.U32("expert_feed_forward_length", width);
  keys.U32("expert_shared_feed_forward_length", shared);
  return Ok();
}

void FillQwenHybrid(SpecKeys& keys, ModelSpec& spec) {
  ReadDelta(keys, spec);
  spec.gated_queries = true;
  spec.second_norm = "post_attention_norm";
  if (spec.value_width != spec.key_width)
    keys.Refuse("attention.value_length", Cat(spec.key_width), Cat(spec.value_width));
  const uint32_t interval =
      keys.Uint("full_attention_interval", FindArchitecture(keys.architecture())->full_interval);
  if (interval == 0) {
    keys.Refuse("full_attention_interval", "at least 1", "0");
    return;
  }
  const std::vector<bool> listed = keys.Flags("attention.recurrent_layers", spec.layers);
  for (uint32_t layer = 0; layer < spec.layers; ++layer)
    spec.layer[layer].recurrent = listed.empty() ? (layer + 1) % interval != 0 : listed[layer];
}

}  // namespace moepack
