// SmallThinker: the router of a layer reads what its attention reads, before the norm; experts are
// ReLU-gated; the larger models have a window in three layers of four. Names: modeling_smallthinker
// of SmallThinker-4BA0.6B.
#include <algorithm>

#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/layer_fields.h"

namespace moepack::smallthinker {
namespace {

constexpr const char* kGraph = "smallthinker";  // general.architecture
constexpr Projections kNames = {"gate", "up", "down", ""};
// Of models with a window: the first layer of each period has full attention, without rotation, and
// the window is built in.
constexpr uint32_t kPeriod = 4, kWindow = 4096;

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = true};
  family.facts = {.all_moe = true, .square_heads = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.block_sparse_moe.primary_router");
  AddExperts(family, "layers.{L}.block_sparse_moe.", kNames);
  family.promise = {.complete = true};
  return family;
}

Result<bool> HasWindow(const HfConfig& config) {
  SHARD_TRY(const std::vector<uint32_t> layout, config.FindU32s(fields::kWindowPattern));
  return std::any_of(layout.begin(), layout.end(), [](uint32_t entry) { return entry != 0; });
}

Status CheckRotation(const HfConfig& config, const HfShape& shape, bool window) {
  const ConfigKeys key = {"rope_layout"};
  SHARD_TRY(const std::vector<uint32_t> layout, config.FindU32s(key));
  for (uint32_t layer = 0; layer < std::min<size_t>(shape.layers, layout.size()); ++layer) {
    const uint32_t expected = window && layer % kPeriod == 0 ? 0 : 1;
    if (layout[layer] == expected) continue;
    return CannotHold(config, Cat("rope_layout[", layer, "]: expected ", expected,
                                  ", as the runtime has it, found ", layout[layer]));
  }
  return Ok();
}

Status AddWindow(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_CHECK(CheckWindowPeriod(config, shape, kPeriod, /*full_first=*/true));
  SHARD_TRY(const uint32_t window, config.U32(fields::kWindow));
  if (window != kWindow) {
    return CannotHold(config, Cat("sliding_window_size: expected ", kWindow,
                                  ", as the runtime has it, found ", window));
  }
  return AddWindowKey(config, keys);
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  // The first sizes the experts, the second has to be there.
  keys.U32("expert_feed_forward_length", width);
  keys.U32("feed_forward_length", width);
  SHARD_TRY(const bool window, HasWindow(config));
  SHARD_CHECK(CheckRotation(config, shape, window));
  return window ? AddWindow(config, shape, keys) : Ok();
}

// SmallThinker: experts in every layer, sigmoid scores, or a softmax of the chosen ones.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = kGraph;
  family.activations = {"relu"};
  family.pre = "qwen2";
  family.keys = AddKeys;
  AddModelRows(family);
  AddAttentionRows(family);
  const std::string at = "layers.{L}.", moe = at + "block_sparse_moe.";
  family.rows.push_back({at + "post_attention_layernorm.weight", "blk.{L}.ffn_norm.weight"});
  family.rows.push_back({moe + "primary_router.weight", "blk.{L}.ffn_gate_inp.weight"});
  AddExpertRows(family, (moe + "experts.").c_str(), {kNames.gate, kNames.up, kNames.down});
  return ConvertHf(model, family, options);
}

void Fill(SpecKeys& keys, ModelSpec& spec) {
  spec.routes_early = true;
  spec.activation = spec.expert_activation = Activation::kRelu;
  if (keys.Uint("attention.sliding_window", 0) == 0) return;
  for (uint32_t layer = 0; layer < spec.layers; ++layer) {
    const bool full = layer % kPeriod == 0;
    spec.layer[layer].window = full ? 0 : kWindow;
    spec.layer[layer].rope = !full;
  }
}

constexpr std::string_view kArchitectures[] = {"SmallThinkerForCausalLM"};
constexpr std::string_view kModelTypes[] = {"smallthinker"};

constexpr ConfigDefault kDefaults[] = {
    // configuration_smallthinker.py
    {R"({"rope_theta": 10000, "rms_norm_eps": 1e-6})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph,
     .routing = {{.gating = Gating::kSigmoid,
                  .normalize = true,
                  .reads_gating = true,
                  .needs_gating = true}},
     .window = {{.period = kPeriod, .tokens = kWindow, .reads_key = true, .full_first = true}}},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "SmallThinker", Fill},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"smallthinker", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::smallthinker
