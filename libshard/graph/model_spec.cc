#include "libshard/graph/model_spec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "libshard/base/limits.h"
#include "libshard/base/text/text.h"
#include "libshard/model/gguf_architectures.h"
#include "libshard/model/gguf_routing.h"

namespace moepack {
namespace {

// Larger than any width, layer count or context of a real model, and small enough that products of
// two fit in 64 bits with room to spare.
constexpr uint64_t kMaxCount = 1 << 24;

std::string KindOf(const GgufValue& value) {
  if (value.type == GgufType::kArray) return Cat("an array of ", value.Count());
  return Cat("a ", GgufTypeName(value.type));
}

}  // namespace

const GgufValue* SpecKeys::Find(std::string_view key) const {
  return metadata_.Find(Cat(architecture_, ".", key));
}

void SpecKeys::Refuse(std::string_view key, const std::string& expected, const std::string& found) {
  if (error_.has_value()) return;
  error_ = Error{Code::kCorrupt, Cat(path_, ": ", architecture_, ".", key, ": expected ", expected,
                                     ", found ", found)};
}

void SpecKeys::Decline(const std::string& what) {
  if (error_.has_value()) return;
  error_ = Error{Code::kUnsupported, Cat(path_, ": ", architecture_, ": ", what)};
}

Status SpecKeys::status() const {
  if (error_.has_value()) return *error_;
  return Ok();
}

uint32_t SpecKeys::Checked(std::string_view key, const GgufValue& value) {
  const auto number = value.AsUint();
  if (number.has_value() && *number <= kMaxCount) return static_cast<uint32_t>(*number);
  Refuse(key, Cat("a number up to ", kMaxCount),
         number.has_value() ? Cat(*number) : Cat("a ", GgufTypeName(value.type)));
  return 0;
}

float SpecKeys::CheckedFloat(std::string_view key, const GgufValue& value) {
  const auto number = value.AsFloat();
  // NaN is not smaller, and a finite f64 may be infinite as an f32.
  if (number.has_value() && std::abs(*number) <= std::numeric_limits<float>::max())
    return static_cast<float>(*number);
  Refuse(key, "a finite f32",
         number.has_value() ? Cat(*number) : Cat("a ", GgufTypeName(value.type)));
  return 0;
}

uint32_t SpecKeys::Required(std::string_view key) {
  const GgufValue* value = Find(key);
  if (value == nullptr) {
    Refuse(key, "a number", "no such key");
    return 0;
  }
  const uint32_t number = Checked(key, *value);
  if (number == 0) Refuse(key, "at least 1", "0");
  return number;
}

uint32_t SpecKeys::Uint(std::string_view key, uint32_t otherwise) {
  const GgufValue* value = Find(key);
  return value == nullptr ? otherwise : Checked(key, *value);
}

float SpecKeys::Float(std::string_view key, float otherwise) {
  const GgufValue* value = Find(key);
  return value == nullptr ? otherwise : CheckedFloat(key, *value);
}

float SpecKeys::RequiredFloat(std::string_view key) {
  if (!Has(key)) Refuse(key, "a number", "no such key");
  return Float(key, 0);
}

bool SpecKeys::Bool(std::string_view key, bool otherwise) {
  const GgufValue* value = Find(key);
  if (value == nullptr) return otherwise;
  if (const auto flag = value->AsBool()) return *flag;
  Refuse(key, "a bool", Cat("a ", GgufTypeName(value->type)));
  return otherwise;
}

std::string SpecKeys::String(std::string_view key, const std::string& otherwise) {
  const GgufValue* value = Find(key);
  if (value == nullptr) return otherwise;
  if (const auto text = value->AsString()) return std::string(*text);
  Refuse(key, "a string", Cat("a ", GgufTypeName(value->type)));
  return otherwise;
}

std::vector<float> SpecKeys::Floats(std::string_view key, uint32_t count) {
  const GgufValue* value = Find(key);
  if (value == nullptr) return {};
  std::vector<float> numbers;
  if (value->ElementType() == GgufType::kF32) {
    constexpr size_t kListHead = 4 + 8;  // element type and count
    numbers.resize((value->bytes.size() - kListHead) / sizeof(float));
    std::memcpy(numbers.data(), value->bytes.data() + kListHead, numbers.size() * sizeof(float));
  }
  const bool finite = std::all_of(numbers.begin(), numbers.end(),
                                  [](float number) { return std::isfinite(number); });
  if (numbers.size() >= count && finite) return numbers;
  Refuse(key, Cat("a list of ", count, " finite f32"), KindOf(*value));
  return std::vector<float>(count);
}

std::vector<uint64_t> SpecKeys::Uints(std::string_view key, uint32_t count) {
  const GgufValue* value = Find(key);
  std::vector<uint64_t> numbers;
  if (value != nullptr) numbers = value->AsUints().value_or(std::vector<uint64_t>());
  if (numbers.size() >= count) return numbers;
  Refuse(key, Cat("a list of ", Plural(count, "number")),
         value == nullptr ? "no such key" : KindOf(*value));
  return std::vector<uint64_t>(count);
}

std::vector<bool> SpecKeys::Flags(std::string_view key, uint32_t count) {
  const GgufValue* value = Find(key);
  if (value == nullptr) return {};
  std::vector<bool> flags;
  if (value->ElementType() == GgufType::kBool) {
    constexpr size_t kListHead = 4 + 8;  // element type and count
    for (const char byte : std::string_view(value->bytes).substr(kListHead))
      flags.push_back(byte != 0);
  } else if (value->type == GgufType::kArray) {
    for (const uint64_t number : value->AsUints().value_or(std::vector<uint64_t>()))
      flags.push_back(number != 0);
  }
  if (flags.size() >= count) return flags;
  Refuse(key, Cat("a list of ", Plural(count, "bool")), KindOf(*value));
  return std::vector<bool>(count);
}

std::vector<uint32_t> SpecKeys::PerLayer(std::string_view key, uint32_t count, uint32_t otherwise) {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::vector<uint32_t>(count, otherwise);
  if (value->type != GgufType::kArray) return std::vector<uint32_t>(count, Checked(key, *value));
  const auto numbers = value->AsUints();
  std::vector<uint32_t> layers(count);
  if (!numbers.has_value() || numbers->size() < count) {
    Refuse(key, Cat("numbers for ", Plural(count, "layer")), Cat("an array of ", value->Count()));
    return layers;
  }
  for (uint32_t layer = 0; layer < count; ++layer) {
    if ((*numbers)[layer] > kMaxCount)
      Refuse(key, Cat("numbers up to ", kMaxCount), Cat((*numbers)[layer]));
    layers[layer] = static_cast<uint32_t>((*numbers)[layer]);
  }
  return layers;
}

namespace {

// CUDA's grids have at most 65535 blocks in their second dimension, which counts heads, and the
// product of tokens and heads has to fit in 32 bits.
constexpr uint32_t kMostHeads = 65535;

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
  const bool centred =
      !keys.Has("attention.layer_norm_rms_epsilon") && keys.Has("attention.layer_norm_epsilon");
  if (centred) return keys.Decline("LayerNorm does not run in the runtime shim");
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
  }
}

// A list may have 0 in layers that are not feed-forward parts.
void CheckRouters(const ModelSpec& spec, SpecKeys& keys) {
  for (const LayerSpec& layer : spec.layer) {
    if (layer.feeds && layer.router.top_k == 0) keys.Refuse("expert_used_count", "at least 1", "0");
  }
}

}  // namespace

const RuntimeFamily* FindRuntimeFamily(std::string_view architecture) {
  for (const RuntimeFamily& family : AllRuntimeFamilies()) {
    if (architecture == family.architecture) return &family;
  }
  return nullptr;
}

Result<const RuntimeFamily*> RuntimeFamilyOf(const std::string& path,
                                             const GgufMetadata& metadata) {
  const std::string architecture = metadata.Architecture();
  if (const RuntimeFamily* family = FindRuntimeFamily(architecture)) return family;
  return Error{Code::kUnsupported,
               Cat(path, ": architecture: expected one that the runtime shim runs, found ",
                   Quoted(architecture)),
               Cat("such a model is split, quantized, verified and assembled, but not computed; "
                   "these run: ",
                   FamiliesThatRun())};
}

Result<ModelSpec> ReadModelSpec(const std::string& path, const GgufMetadata& metadata) {
  ModelSpec spec;
  spec.architecture = metadata.Architecture();
  SHARD_TRY(const RuntimeFamily* family, RuntimeFamilyOf(path, metadata));
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
  CheckRouters(spec, keys);
  CheckRopes(spec, keys);
  SHARD_CHECK(keys.status());
  return spec;
}

}  // namespace moepack
