// Cohere's Command models with experts (North-Mini-Code): one norm feeds attention and feed-forward
// part side by side; some layers attend to a window and rotate, the others do not. Names:
// transformers (Cohere2Moe), llama.cpp's converter.
#include <algorithm>
#include <span>

#include "libshard/base/files/file.h"
#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/layer_experts.h"

namespace moepack::cohere2_moe {
namespace {

constexpr const char* kGraph = "cohere2moe";  // general.architecture
constexpr uint64_t kMostBiasBytes = 16u << 20;

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = false};
  family.facts = {.plain_width = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddDeepseekMoe(family, "layers.{L}.");
  return family;
}

// What the graph has built in must be what the config says, if it says anything.
Status CheckBuiltIn(const HfConfig& config) {
  const std::pair<const char*, bool> switches[] = {
      {"use_parallel_block", true}, {"use_gated_activation", true}, {"use_qk_norm", false}};
  for (const auto& [field, expected] : switches) {
    SHARD_TRY(const std::optional<bool> found, config.FindBool({field}));
    if (found.value_or(expected) == expected) continue;
    return CannotHold(
        config, Cat(field, ": expected ", expected ? "true" : "false",
                    ", which the runtime takes for granted, found ", *found ? "true" : "false"));
  }
  return CheckWord(config, {"shared_expert_combination_strategy"}, {"average"});
}

// Models have RMS norms if the config gives an epsilon for them, and otherwise LayerNorm without a
// bias.
Status AddNormKeys(const HfConfig& config, ArchKeys& keys) {
  const ConfigKeys mean = {"layer_norm_eps"};
  if (config.Has(fields::kEpsilon) || !config.Has(mean))
    SHARD_CHECK(AddEpsilon(config, fields::kEpsilon, "attention.layer_norm_rms_epsilon", keys));
  if (!config.Has(mean)) return Ok();
  return AddEpsilon(config, mean, "attention.layer_norm_epsilon", keys);
}

Status AddExpertKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_TRY(const uint32_t width, config.U32(fields::ExpertWidth(config)));
  SHARD_TRY(const uint32_t dense, LeadingDense(config, shape));
  SHARD_TRY(const std::optional<uint32_t> shared, config.FindU32(fields::kSharedExperts));
  keys.U32("expert_feed_forward_length", width);
  keys.U32("leading_dense_block_count", dense);
  if (shared.value_or(0) == 0) return Ok();
  uint32_t joined = 0;
  if (__builtin_mul_overflow(width, *shared, &joined))
    return config.Wrong(*config.Find(fields::kSharedExperts), "a number of experts");
  keys.U32("expert_shared_count", *shared);
  keys.U32("expert_shared_feed_forward_length", joined);
  return Ok();
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_CHECK(CheckBuiltIn(config));
  SHARD_CHECK(AddNormKeys(config, keys));
  SHARD_TRY(const float scale, config.F32({"logit_scale"}));
  SHARD_TRY(const std::vector<bool> windowed, ReadWindowed(config, shape, fields::kLayerTypes));
  keys.F32("logit_scale", scale);
  SHARD_CHECK(AddWindowKey(config, keys));
  keys.Bools("attention.sliding_window_pattern", windowed);
  keys.U32("vocab_size", shape.vocabulary);
  SHARD_CHECK(AddExpertKeys(config, shape, keys));
  // Whole heads are rotated, in neighbouring pairs, and angles are not scaled.
  keys.U32("rope.dimension_count", shape.head_size);
  keys.String("rope.scaling.type", "none");
  return Ok();
}

Status CheckTensors(const HfConfig& config, const HfShape& shape,
                    const std::vector<GgufTensor>& tensors) {
  SHARD_TRY(const uint32_t dense, LeadingDense(config, shape));
  SHARD_TRY(const std::optional<uint32_t> shared, config.FindU32(fields::kSharedExperts));
  MixedLayers layers;
  layers.shared = shared.value_or(0) > 0;
  layers.moe.assign(shape.layers, true);
  std::fill_n(layers.moe.begin(), std::min(dense, shape.layers), false);
  return CheckMixedLayers(config, layers, tensors);
}

// Adds nothing to the GGUF for biases of 0, as llama.cpp's converter does. The graph has none.
void LeaveBiasesOut(HfFamily& family) {
  const std::string at = "layers.{L}.";
  std::vector<std::string> modules = {"norm", "lm_head", at + "input_layernorm", at + "mlp.gate"};
  for (const char* part : {"q", "k", "v", "o"})
    modules.push_back(Cat(at, "self_attn.", part, "_proj"));
  for (const char* place : {"", "shared_experts.", "experts.{E}."}) {
    for (const char* part : {"gate", "up", "down"})
      modules.push_back(Cat(at, "mlp.", place, part, "_proj"));
  }
  for (const std::string& module : modules)
    family.rows.push_back({.source = module + ".bias", .target = ""});
}

// True if all bits but those of signs are 0.
bool IsZero(std::span<const std::byte> bytes, uint64_t value_bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool last = i % value_bytes == value_bytes - 1;
    if ((bytes[i] & std::byte{static_cast<unsigned char>(last ? 0x7f : 0xff)}) != std::byte{0})
      return false;
  }
  return true;
}

Status CheckZeroBias(const MoeModel& model, const TensorEntry& entry) {
  const SourceFile& file = model.checkpoint().files()[entry.file];
  const auto refuse = [&](const std::string& found) {
    return Error{Code::kUnsupported,
                 Cat(file.path.string(), ": tensor ", Quoted(entry.name),
                     ": expected zeros, because the runtime adds no biases here, found ", found),
                 kNoGgufHint};
  };
  if (!IsPlainType(entry.dtype) || entry.bytes > kMostBiasBytes)
    return refuse(Cat(entry.dtype, " of shape ", FormatShape(entry.shape)));
  SHARD_TRY(const ByteSourcePtr source, OpenUnchanged(file));
  std::vector<std::byte> bytes(entry.bytes);
  SHARD_CHECK(source->ReadAt(entry.offset, bytes));
  return IsZero(bytes, entry.dtype == "F32" ? 4 : 2) ? Ok() : refuse("others");
}

Status CheckZeroBiases(const MoeModel& model) {
  if (model.checkpoint().names_only() || model.checkpoint().promised()) return Ok();
  for (const ModelTensor& tensor : model.tensors()) {
    const TensorEntry& entry = model.entry(tensor);
    if (entry.name.ends_with(".bias")) SHARD_CHECK(CheckZeroBias(model, entry));
  }
  return Ok();
}

Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  if (options.part != ConvertOptions::Part::kKeys) SHARD_CHECK(CheckZeroBiases(model));
  HfFamily family;
  family.architecture = kGraph;
  family.pre = "command-r";
  family.all_layers_moe = false;
  family.own_keys.epsilon = true;
  family.keys = AddKeys;
  family.check = CheckTensors;
  AddModelRows(family);
  AddAttentionRows(family);
  AddMixedRows(family, {"layers.{L}.mlp.", "gate", "shared_experts"});
  LeaveBiasesOut(family);
  return ConvertHf(model, family, options);
}

// Layers with a window rotate, and so do the leading dense ones.
void Fill(SpecKeys& keys, ModelSpec& spec) {
  const uint32_t window = keys.Required("attention.sliding_window");
  const uint32_t dense = keys.Uint("leading_dense_block_count", 0);
  const std::vector<bool> windowed = keys.Flags("attention.sliding_window_pattern", spec.layers);
  if (windowed.empty()) keys.Refuse("attention.sliding_window_pattern", "a list", "none");
  if (!keys.status()) return;
  for (uint32_t layer = 0; layer < spec.layers; ++layer) {
    if (windowed[layer]) spec.layer[layer].window = window;
    spec.layer[layer].rope = windowed[layer] || layer < dense;
  }
  spec.rope.pairing = Pairing::kNeighbours;
  spec.one_norm = true;
  spec.logit_scale = keys.RequiredFloat("logit_scale");
  if (keys.Uint("expert_shared_count", 0) > 0) spec.experts_scale = 0.5f;
}

constexpr std::string_view kArchitectures[] = {"Cohere2MoeForCausalLM"};
constexpr std::string_view kModelTypes[] = {"cohere2_moe"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' Cohere2MoeConfig
    {R"({"rope_theta": 50000, "tie_word_embeddings": true, "logit_scale": 0.25,
        "sliding_window": 4096})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph,
     .routing = {{.gating = Gating::kSigmoid,
                  .normalize = false,
                  .reads_gating = true,
                  .reads_weights = true,
                  .writes_false_norm = true,
                  .omits_unit_scale = true}}},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "Command with experts", Fill},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"cohere2-moe", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::cohere2_moe
