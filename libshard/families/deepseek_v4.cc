// DeepSeek-V4: names of DeepSeek's own code (layers.L.ffn, w1/w2/w3, companions called "scale").
// The first layers route by the token's id: gate.tid2eid [vocabulary, top-k] holds expert ids; the
// others add gate.bias only for the choice, which makes it a selection bias. Names: ModelOpt's
// module list and published readers of the checkpoint.
#include <utility>

#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/layer_fields.h"

namespace moepack::deepseek_v4 {
namespace {

constexpr const char* kGraph = "deepseek4";  // general.architecture
// Layers with this ratio of compression have an indexer, too.
constexpr uint32_t kIndexedRatio = 4;
// The other one that llama.cpp knows.
constexpr uint32_t kPlainRatio = 128;
// Far more than a model has; each token takes so many sums.
constexpr uint32_t kMostStreams = 64, kMostIterations = 1000;

Family Table() {
  Family family;
  family.prefixes = {"model."};
  family.routing = {.gating = Gating::kSqrtSoftplus, .normalize = true};
  family.facts = {.all_moe = true, .shared_of_experts = true};
  AddTrunk(family, "embedding", {"embed.{W}", "mtp.{M}.emb.{**}"});
  AddTrunk(family, "norm", {"norm.{W}"});
  AddTrunk(family, "head", {"head.{W}", "hc_head_{**}", "mtp.{M}.head.{**}"});
  for (const std::string at : {"layers.{L}.", "mtp.{M}."}) {
    AddTrunk(family, "norm", {at + "{*}norm.{W}"});
    AddTrunk(family, "attention", {at + "attn.{**}"});
    // Hyper-connections: how the residual streams are mixed, per block.
    AddTrunk(family, "residual", {at + "hc_{**}"});
    AddSelectionBias(family, at + "ffn.gate.bias");
    AddRouter(family, at + "ffn.gate");
    family.rules.push_back({.pattern = at + "ffn.gate.tid2eid",
                            .part = Part::kRouter,
                            .role = "expert_ids",
                            .holds_expert_ids = true});
    AddExplicitExperts(family, at + "ffn.experts.", kW123);
    AddSharedExpert(family, at + "ffn.shared_experts.", kW123);
  }
  AddTrunk(family, "mtp", {"mtp.{M}.e_proj.{W}", "mtp.{M}.h_proj.{W}"});
  return family;
}

// Which layers have what.
struct Layers {
  BlockChoice hashed, scored;  // by the token's id, or by scores
  BlockChoice compressed, indexed;
};

Result<std::vector<uint32_t>> Ratios(const HfConfig& config, const HfShape& shape) {
  SHARD_TRY(std::vector<uint32_t> ratios, config.FindU32s(fields::kCompressRatios));
  if (ratios.size() >= shape.layers) return ratios;
  if (ratios.empty()) return config.Missing(fields::kCompressRatios, "a number for each layer");
  return config.Wrong(*config.Find(fields::kCompressRatios),
                      Cat("at least ", Plural(shape.layers, "number")));
}

Result<uint32_t> HashLayers(const HfConfig& config, const HfShape& shape) {
  SHARD_TRY(const std::optional<uint32_t> count, config.FindU32({"num_hash_layers"}));
  if (count.value_or(0) <= shape.layers) return count.value_or(0);
  return config.Wrong(*config.Find({"num_hash_layers"}), Cat("at most ", shape.layers));
}

Result<Layers> ReadLayers(const HfConfig& config) {
  SHARD_TRY(const HfShape shape, ReadShape(config));
  SHARD_TRY(const std::vector<uint32_t> ratios, Ratios(config, shape));
  SHARD_TRY(const uint32_t hashed, HashLayers(config, shape));
  Layers layers;
  layers.hashed.listed = layers.compressed.listed = layers.indexed.listed = true;
  for (uint32_t layer = 0; layer < shape.layers; ++layer) {
    if (layer < hashed) layers.hashed.numbers.push_back(layer);
    if (ratios[layer] > 0) layers.compressed.numbers.push_back(layer);
    if (ratios[layer] == kIndexedRatio) layers.indexed.numbers.push_back(layer);
  }
  layers.scored.numbers = layers.hashed.numbers;
  return layers;
}

void AddMixerRows(HfFamily& family, const Layers& layers) {
  const auto add = [&](const std::string& source, const std::string& target,
                       const BlockChoice& blocks) {
    family.rows.push_back({.source = "layers.{L}.attn." + source,
                           .target = Cat("blk.{L}.", target, ".weight"),
                           .blocks = blocks});
  };
  add("attn_sink", "attn_sinks", {});
  add("q_norm.weight", "attn_q_a_norm", {});
  add("kv_norm.weight", "attn_kv_a_norm", {});
  add("wq_a.weight", "attn_q_a", {});
  add("wq_b.weight", "attn_q_b", {});
  add("wkv.weight", "attn_kv", {});
  add("wo_a.weight", "attn_output_a", {});
  add("wo_b.weight", "attn_output_b", {});
  const auto compressor = [&](const std::string& at, const std::string& to,
                              const BlockChoice& blocks) {
    add(at + "compressor.ape", to + "_compressor_ape", blocks);
    add(at + "compressor.norm.weight", to + "_compressor_norm", blocks);
    add(at + "compressor.wgate.weight", to + "_compressor_gate", blocks);
    add(at + "compressor.wkv.weight", to + "_compressor_kv", blocks);
  };
  compressor("", "attn", layers.compressed);
  compressor("indexer.", "indexer", layers.indexed);
  add("indexer.weights_proj.weight", "indexer.proj", layers.indexed);
  add("indexer.wq_b.weight", "indexer.attn_q_b", layers.indexed);
}

void AddRoutedRows(HfFamily& family, const Layers& layers) {
  const std::string at = "layers.{L}.ffn.", to = "blk.{L}.";
  family.rows.push_back({at + "gate.weight", to + "ffn_gate_inp.weight"});
  family.rows.push_back({.source = at + "gate.tid2eid",
                         .target = to + "ffn_gate_tid2eid.weight",
                         .rule = ValueRule::kExpertIds,
                         .blocks = layers.hashed});
  family.rows.push_back(
      {.source = at + "gate.bias", .target = to + "exp_probs_b.bias", .blocks = layers.scored});
  // Nothing is chosen by score there.
  family.rows.push_back({.source = at + "gate.bias", .target = "", .blocks = layers.hashed});
  AddExpertRows(family, (at + "experts.").c_str(), {"w1", "w3", "w2"});
  const std::pair<const char*, const char*> shared[] = {
      {"w1", "gate"}, {"w3", "up"}, {"w2", "down"}};
  for (const auto& [source, target] : shared) {
    family.rows.push_back(
        {Cat(at, "shared_experts.", source, ".weight"), Cat(to, "ffn_", target, "_shexp.weight")});
  }
}

void AddRows(HfFamily& family, const Layers& layers) {
  const std::string at = "layers.{L}.", to = "blk.{L}.";
  family.rows.push_back({"embed.weight", "token_embd.weight"});
  family.rows.push_back({"norm.weight", "output_norm.weight"});
  family.rows.push_back({"head.weight", "output.weight"});
  family.rows.push_back({at + "attn_norm.weight", to + "attn_norm.weight"});
  family.rows.push_back({at + "ffn_norm.weight", to + "ffn_norm.weight"});
  for (const std::string part : {"base", "fn", "scale"}) {
    family.rows.push_back({"hc_head_" + part, Cat("output_hc_", part, ".weight")});
    for (const std::string mixer : {"attn", "ffn"}) {
      const std::string name = Cat("hc_", mixer, "_", part);
      family.rows.push_back({at + name, Cat(to, name, ".weight")});
    }
  }
  AddMixerRows(family, layers);
  AddRoutedRows(family, layers);
}

Status AddAttentionKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  const struct {
    const char* key;
    ConfigKeys field;
  } counts[] = {{"rope.dimension_count", fields::kRopePart},
                {"attention.q_lora_rank", fields::kQueryRank},
                {"attention.sliding_window", fields::kWindow},
                {"attention.indexer.head_count", fields::kIndexHeads},
                {"attention.indexer.key_length", fields::kIndexSize},
                {"attention.indexer.top_k", {"index_topk"}},
                {"attention.output_group_count", {"o_groups"}},
                {"attention.output_lora_rank", {"o_lora_rank"}}};
  for (const auto& [key, field] : counts) {
    SHARD_TRY(const uint32_t count, config.U32(field));
    keys.U32(key, count);
  }
  SHARD_TRY(const std::vector<uint32_t> ratios, Ratios(config, shape));
  keys.I32s("attention.compress_ratios", std::vector<int32_t>(ratios.begin(), ratios.end()));
  SHARD_TRY(const float base, config.F32({"compress_rope_theta"}));
  keys.F32("attention.compress_rope_freq_base", base);
  return Ok();
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_CHECK(AddAttentionKeys(config, shape, keys));
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  SHARD_TRY(const uint32_t shared, config.U32(fields::kSharedExperts));
  keys.U32("expert_feed_forward_length", width);
  keys.U32("expert_shared_count", shared);
  SHARD_TRY(const std::optional<float> limit, config.FindF32({"swiglu_limit"}));
  if (limit) {
    const std::vector<float> limits(shape.layers, *limit);
    keys.F32s("swiglu_clamp_exp", limits);
    keys.F32s("swiglu_clamp_shexp", limits);
  }
  SHARD_TRY(const uint32_t streams, config.U32({"hc_mult"}));
  SHARD_TRY(const uint32_t iterations, config.U32({"hc_sinkhorn_iters"}));
  SHARD_TRY(const float epsilon, config.F32({"hc_eps"}));
  SHARD_TRY(const uint32_t hashed, HashLayers(config, shape));
  uint32_t stacked = 0;
  if (__builtin_mul_overflow(streams, shape.hidden, &stacked))
    return config.Wrong(*config.Find({"hc_mult"}), "a number of residual streams");
  keys.U32("hyper_connection.count", streams);
  keys.U32("hyper_connection.sinkhorn_iterations", iterations);
  keys.F32("hyper_connection.epsilon", epsilon);
  keys.U32("hash_layer_count", hashed);
  keys.U32("embedding_length_out", stacked);
  return Ok();
}

// DeepSeek-V4: attention over a window and compressed keys, some of which an indexer picks; several
// residual streams; experts in MXFP4. Matrices keep the types of the checkpoint, as in llama.cpp's
// converter, where FP8 becomes Q8_0. Blocks for multi-token prediction are left out.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  SHARD_TRY(const HfConfig config,
            HfConfig::Parse(model.config_path().string(), model.config_text()));
  SHARD_TRY(const Layers layers, ReadLayers(config));
  HfFamily family;
  family.architecture = kGraph;
  family.pre = "deepseek-v3";
  family.own_types = true;
  family.keys = AddKeys;
  AddRows(family, layers);
  return ConvertHf(model, family, options);
}

// Layers whose keys are compressed rotate by another base and by YaRN, which does not change the
// length of what it turns; the others by the usual base alone.
void FillRotation(SpecKeys& keys, ModelSpec& spec) {
  spec.rope.pairing = Pairing::kNeighbours;
  spec.rope.attention_factor = 1;
  spec.local_rope = {.pairing = spec.rope.pairing,
                     .dims = spec.rope.dims,
                     .base = spec.rope.base,
                     .original_context = spec.context};
  spec.rope.base = keys.RequiredFloat("attention.compress_rope_freq_base");
}

void FillLayers(SpecKeys& keys, ModelSpec& spec) {
  const uint32_t window = keys.Required("attention.sliding_window");
  const std::vector<uint32_t> ratios = keys.PerLayer("attention.compress_ratios", spec.layers, 0);
  const uint32_t hashed = keys.Uint("hash_layer_count", 0);
  if (hashed > spec.layers)
    keys.Refuse("hash_layer_count", Cat("at most ", spec.layers), Cat(hashed));
  for (uint32_t number = 0; number < spec.layers; ++number) {
    LayerSpec& layer = spec.layer[number];
    layer.window = window;
    layer.ratio = ratios[number];
    layer.local_rope = layer.ratio == 0;
    layer.own_indexer = layer.ratio == kIndexedRatio;
    layer.routes_by_table = number < hashed;
    if (layer.ratio != 0 && layer.ratio != kIndexedRatio && layer.ratio != kPlainRatio)
      keys.Refuse("attention.compress_ratios", Cat("0, ", kIndexedRatio, " or ", kPlainRatio),
                  Cat(layer.ratio));
  }
  ReadLimits(keys, "swiglu_clamp_exp", &LayerSpec::expert_limit, spec);
  ReadLimits(keys, "swiglu_clamp_shexp", &LayerSpec::mlp_limit, spec);
  spec.limited = Activation::kSiluOfLimited;
}

void FillAttention(SpecKeys& keys, ModelSpec& spec) {
  spec.compressed = {keys.Required("attention.output_group_count"),
                     keys.Required("attention.output_lora_rank")};
  spec.indexer = {keys.Required("attention.indexer.head_count"),
                  keys.Required("attention.indexer.key_length"),
                  keys.Required("attention.indexer.top_k"), spec.rope.dims};
  if (!keys.status()) return;
  if (spec.key_heads != 1)
    keys.Decline(
        Cat("attention with ", spec.key_heads, " key heads does not run in the runtime shim"));
  if (spec.value_width != spec.key_width)
    keys.Refuse("attention.value_length", Cat(spec.key_width, ", as keys are values"),
                Cat(spec.value_width));
  if (spec.heads % spec.compressed.groups != 0)
    keys.Refuse("attention.output_group_count", Cat("a divisor of ", spec.heads),
                Cat(spec.compressed.groups));
  if (uint64_t{spec.compressed.groups} * spec.compressed.rank > INT32_MAX)
    keys.Refuse("attention.output_lora_rank", "groups that fit", Cat(spec.compressed.rank));
  if (spec.indexer.width < spec.indexer.dims)
    keys.Refuse("attention.indexer.key_length", Cat("at least ", spec.indexer.dims),
                Cat(spec.indexer.width));
  if (uint64_t{spec.indexer.heads} * spec.indexer.width > INT32_MAX)
    keys.Refuse("attention.indexer.head_count", "heads that fit", Cat(spec.indexer.heads));
}

void FillStreams(SpecKeys& keys, ModelSpec& spec) {
  spec.streams = {keys.Required("hyper_connection.count"),
                  keys.Required("hyper_connection.sinkhorn_iterations"),
                  keys.RequiredFloat("hyper_connection.epsilon")};
  if (spec.streams.count > kMostStreams)
    keys.Refuse("hyper_connection.count", Cat("at most ", kMostStreams), Cat(spec.streams.count));
  if (spec.streams.iterations > kMostIterations)
    keys.Refuse("hyper_connection.sinkhorn_iterations", Cat("at most ", kMostIterations),
                Cat(spec.streams.iterations));
}

void Fill(SpecKeys& keys, ModelSpec& spec) {
  FillRotation(keys, spec);
  FillLayers(keys, spec);
  FillAttention(keys, spec);
  FillStreams(keys, spec);
}

constexpr std::string_view kArchitectures[] = {"DeepseekV4ForCausalLM"};
constexpr std::string_view kModelTypes[] = {"deepseek_v4"};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph,
     .routing = {{.gating = Gating::kSqrtSoftplus,
                  .normalize = false,
                  .reads_gating = true,
                  .reads_weights = true}}},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "DeepSeek-V4", Fill},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"deepseek-v4", kArchitectures, kModelTypes},
    .table = Table,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::deepseek_v4
