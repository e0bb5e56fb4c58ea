#include "libshard/graph/model_spec.h"

#include <algorithm>
#include <cmath>

#include "libshard/base/limits.h"
#include "libshard/base/text/text.h"
#include "libshard/model/gguf_architectures.h"
#include "libshard/model/gguf_routing.h"

namespace moepack {
namespace {

// CUDA's grids have at most 65535 blocks in their second dimension, which counts heads, and the
// product of tokens and heads has to fit in 32 bits.
constexpr uint32_t kMostHeads = 65535;

const RuntimeFamily* FindRuntimeFamily(std::string_view architecture) {
  for (const RuntimeFamily& family : AllRuntimeFamilies()) {
    if (architecture == family.architecture) return &family;
  }
  return nullptr;
}

std::string FamiliesThatRun() {
  std::string names;
  for (const RuntimeFamily& family : AllRuntimeFamilies())
    names += Cat(names.empty() ? "" : ", ", family.architecture, " (", family.models, ")");
  return names;
}

void ReadHeads(const RuntimeFamily& family, SpecKeys& keys, ModelSpec& spec) {
  const std::vector<uint32_t> heads = keys.PerLayer("attention.head_count", spec.layers, 0);
  spec.layer.resize(spec.layers);
  for (uint32_t layer = 0; layer < spec.layers; ++layer) {
    if (heads[layer] == 0 || heads[layer] > kMostHeads) {
      keys.Refuse("attention.head_count",
                  heads[layer] == 0 ? "at least 1" : Cat("at most ", kMostHeads),
                  Cat(heads[layer]));
      return;
    }
    spec.layer[layer].heads = heads[layer];
    spec.heads = std::max(spec.heads, heads[layer]);
  }
  const std::vector<uint32_t> key_heads =
      keys.PerLayer("attention.head_count_kv", spec.layers, spec.heads);
  for (uint32_t layer = 0; layer < spec.layers; ++layer) {
    const uint32_t count = key_heads[layer];
    if (count == 0 && family.layers_without_heads) continue;
    if (count == 0 || heads[layer] % count != 0)
      keys.Refuse("attention.head_count_kv", Cat("a divisor of ", heads[layer]), Cat(count));
    spec.layer[layer].key_heads = count;
    spec.key_heads = std::max(spec.key_heads, count);
  }
}

void ReadShape(const RuntimeFamily& family, SpecKeys& keys, ModelSpec& spec) {
  const uint32_t blocks = keys.Required("block_count");
  const uint32_t extra = keys.Uint("nextn_predict_layers", 0);
  if (extra >= blocks) {
    keys.Refuse("nextn_predict_layers", Cat("fewer than ", blocks), Cat(extra));
    return;
  }
  if (blocks > kMaxLayers) {
    keys.Refuse("block_count", Cat("at most ", kMaxLayers), Cat(blocks));
    return;
  }
  spec.layers = blocks - extra;
  spec.width = keys.Required("embedding_length");
  spec.context = keys.Required("context_length");
  ReadHeads(family, keys, spec);
  if (!keys.status()) return;
  spec.key_width = keys.Uint("attention.key_length", spec.width / spec.heads);
  spec.value_width = keys.Uint("attention.value_length", spec.width / spec.heads);
  if (spec.key_width == 0) keys.Refuse("attention.key_length", "at least 1", "0");
  if (spec.value_width == 0) keys.Refuse("attention.value_length", "at least 1", "0");
  for (LayerSpec& layer : spec.layer) {
    layer.key_width = spec.key_width;
    layer.value_width = spec.value_width;
  }
  spec.norm_eps = keys.RequiredFloat("attention.layer_norm_rms_epsilon");
}

// llama.cpp's loaders do not read the betas of a file, so the defaults are used here, too.
void ReadRope(SpecKeys& keys, ModelSpec& spec) {
  RopeSpec& rope = spec.rope;
  rope.dims = keys.Uint("rope.dimension_count", spec.key_width);
  if (rope.dims == 0 || rope.dims % 2 != 0)
    keys.Refuse("rope.dimension_count", "an even number", Cat(rope.dims));
  rope.base = keys.Float("rope.freq_base", 10000);
  if (!(rope.base > 1)) keys.Refuse("rope.freq_base", "more than 1", Cat(rope.base));
  rope.original_context = keys.Uint("rope.scaling.original_context_length", spec.context);
  rope.attention_factor = keys.Float("rope.scaling.attn_factor", 1);
  const float factor = keys.Float("rope.scaling.factor", 0);
  const std::string type = keys.String("rope.scaling.type", "linear");
  if (factor < 0) keys.Refuse("rope.scaling.factor", "no negative number", Cat(factor));
  if (factor > 0) rope.frequency_scale = 1 / factor;
  if (type == "none") rope.frequency_scale = 1;
  if (type != "yarn") return;
  rope.yarn_mix = 1;
  rope.attention_factor *= 1 + 0.1f * std::log(1 / rope.frequency_scale);
}

// Families change what was read, and finite keys may give something else: a factor of 1e-40.
void CheckRope(const RopeSpec& rope, uint32_t head, const std::string& suffix, SpecKeys& keys) {
  const std::string dims = Cat("rope.dimension_count", suffix);
  if (rope.dims == 0 || rope.dims % 2 != 0) keys.Refuse(dims, "an even number", Cat(rope.dims));
  if (rope.dims > head)
    keys.Refuse(dims, Cat("at most ", head, ", the width of a head"), Cat(rope.dims));
  if (!(rope.base > 1)) keys.Refuse(Cat("rope.freq_base", suffix), "more than 1", Cat(rope.base));
  for (const float scale : {rope.frequency_scale, rope.attention_factor})
    if (!std::isfinite(scale))
      keys.Refuse("rope.scaling.factor", "one that scales by finite numbers", Cat(scale));
}

void CheckRopes(const ModelSpec& spec, SpecKeys& keys) {
  CheckRope(spec.rope, spec.key_width, "", keys);
  for (const LayerSpec& layer : spec.layer)
    if (layer.local_rope) CheckRope(spec.local_rope, layer.key_width, "_swa", keys);
}

// Requires the gating key for architectures for which llama.cpp aborts without it.
void RequireGating(SpecKeys& keys) {
  const GgufArchitecture* row = FindArchitecture(keys.architecture());
  if (row == nullptr || !row->routing || !row->routing->needs_gating) return;
  if (keys.Uint("expert_gating_func", 0) == 0)
    keys.Refuse("expert_gating_func", "a gating function", "none");
}

void ReadRouters(const Routing& routing, SpecKeys& keys, ModelSpec& spec) {
  RequireGating(keys);
  const uint32_t expert_count = keys.Required("expert_count");
  const std::vector<uint32_t> top_k = keys.PerLayer("expert_used_count", spec.layers, 0);
  for (uint32_t layer = 0; layer < spec.layers; ++layer) {
    spec.layer[layer].router = routing;
    spec.layer[layer].router.expert_count = expert_count;
    spec.layer[layer].router.top_k = top_k[layer];
    if (top_k[layer] == 0) keys.Refuse("expert_used_count", "at least 1", "0");
  }
}

}  // namespace

Result<ModelSpec> ReadModelSpec(const std::string& path, const GgufMetadata& metadata) {
  ModelSpec spec;
  spec.architecture = metadata.Architecture();
  const RuntimeFamily* family = FindRuntimeFamily(spec.architecture);
  if (family == nullptr) {
    return Error{Code::kUnsupported,
                 Cat(path, ": architecture: expected one that the runtime shim runs, found ",
                     Quoted(spec.architecture)),
                 Cat("these run: ", FamiliesThatRun())};
  }
  SpecKeys keys(path, metadata);
  ReadShape(*family, keys, spec);
  SHARD_CHECK(keys.status());
  ReadRope(keys, spec);
  SHARD_CHECK(CheckExpertKeys(path, metadata));
  SHARD_TRY(const Routing routing, RoutingOfGguf(path, metadata));
  ReadRouters(routing, keys, spec);
  spec.attention_scale = 1 / std::sqrt(static_cast<float>(spec.key_width));
  SHARD_CHECK(keys.status());
  if (family->fill != nullptr) family->fill(keys, spec);
  SHARD_CHECK(keys.status());
  CheckRopes(spec, keys);
  SHARD_CHECK(keys.status());
  return spec;
}

}  // namespace moepack
