#include "libshard/families/mixed_layers.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "libshard/base/text/text.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/layer_fields.h"

namespace moepack {
namespace {

constexpr const char* kProjections[] = {"gate", "up", "down"};

// Names in a block, after "blk.N.".
std::vector<std::string> DenseNames() {
  std::vector<std::string> names;
  for (const char* name : kProjections) names.push_back(Cat("ffn_", name, ".weight"));
  return names;
}

constexpr const char* kGateUp = "ffn_gate_up_exps.weight";

// `fused`: gate and up of the experts are one tensor.
std::vector<std::string> MoeNames(const MixedLayers& layers, bool fused) {
  std::vector<std::string> names = {"ffn_gate_inp.weight"};
  if (fused) names.emplace_back(kGateUp);
  for (const char* name : kProjections) {
    if (!fused || name == kProjections[2]) names.push_back(Cat("ffn_", name, "_exps.weight"));
    if (layers.shared) names.push_back(Cat("ffn_", name, "_shexp.weight"));
  }
  if (layers.selection_bias) names.push_back(layers.bias_name);
  return names;
}

}  // namespace

void AddMixedRows(HfFamily& family, const MixedRows& rows) {
  const size_t first = family.rows.size();
  const auto add = [&](const std::string& source, const std::string& target) {
    family.rows.push_back({rows.at + source + ".weight", Cat("blk.{L}.", target, ".weight")});
  };
  for (const char* name : kProjections) add(Cat(name, "_proj"), Cat("ffn_", name));
  add(rows.router, "ffn_gate_inp");
  AddExpertRows(family, (rows.at + "experts.").c_str(), {"gate_proj", "up_proj", "down_proj"});
  if (rows.one_gate_up) {
    family.rows.push_back({rows.at + "experts.gate_up_proj", Cat("blk.{L}.", kGateUp)});
    family.rows.push_back({rows.at + "experts.down_proj", "blk.{L}.ffn_down_exps.weight"});
  } else if (rows.fused) {
    AddFusedExpertRows(family, (rows.at + "experts.").c_str());
  }
  for (const char* name : kProjections) {
    add(Cat(rows.shared, ".", name, "_proj"), Cat("ffn_", name, "_shexp"));
  }
  for (size_t i = first; i < family.rows.size(); ++i) family.rows[i].optional = true;
}

void AddOptionalRow(HfFamily& family, const std::string& source, const std::string& target) {
  family.rows.push_back({.source = source, .target = target, .optional = true});
}

void AddNextTokenRows(HfFamily& family) {
  const auto add = [&](const char* source, const char* target, bool optional) {
    family.rows.push_back({.source = Cat("layers.{L}.", source, ".weight"),
                           .target = Cat("blk.{L}.nextn.", target, ".weight"),
                           .optional = optional,
                           .mtp = true});
  };
  for (const char* name : {"eh_proj", "enorm", "hnorm"}) add(name, name, false);
  add("embed_tokens", "embed_tokens", true);
  add("shared_head.head", "shared_head_head", true);
  add("shared_head.norm", "shared_head_norm", true);
}

Result<MoeLayers> LayersWithExperts(const HfConfig& config, const HfShape& shape) {
  SHARD_TRY(const BlockCounts counts, CountBlocks(config, shape));
  ConfigFaults faults;
  SHARD_TRY(MoeLayers read, ReadMoeLayers(config, counts, faults));
  SHARD_CHECK(CheckFaults(config, faults));
  if (read.key.empty()) read.moe.assign(shape.layers, true);
  return read;
}

Result<std::vector<bool>> LayersByRule(const HfConfig& config, const HfShape& shape,
                                       const MoeRule& rule) {
  SHARD_TRY(MoeLayers read, LayersWithExperts(config, shape));
  const std::string every =
      rule.step == 1 ? "" : Cat(" whose number plus 1 is a multiple of ", rule.step);
  for (size_t layer = 0; layer < read.moe.size(); ++layer) {
    const bool moe = layer >= rule.first && (layer + 1) % rule.step == 0;
    if (moe == read.moe[layer]) continue;
    return CannotHold(
        config,
        Cat(read.key, ": expected experts in every layer", every, " from layer ", rule.first,
            " on, as the runtime has them, found ", moe ? "none" : "some", " in layer ", layer));
  }
  return std::move(read.moe);
}

Result<uint32_t> LeadingDense(const HfConfig& config, const HfShape& shape) {
  SHARD_TRY(const MoeLayers read, LayersWithExperts(config, shape));
  const auto first = std::find(read.moe.begin(), read.moe.end(), true);
  const auto dense = static_cast<uint32_t>(first - read.moe.begin());
  SHARD_CHECK(LayersByRule(config, shape, {.first = dense}));
  return dense;
}

Status CheckMixedLayers(const HfConfig& config, const MixedLayers& layers,
                        const std::vector<GgufTensor>& tensors) {
  std::set<std::string> present;
  for (const GgufTensor& tensor : tensors) present.insert(tensor.name);
  const std::vector<std::string> dense = DenseNames();
  for (size_t layer = 0; layer < layers.moe.size(); ++layer) {
    const bool fused = present.contains(Cat("blk.", layer, ".", kGateUp));
    const std::vector<std::string> moe = MoeNames(layers, fused);
    const auto fail = [&](const std::string& expected, const char* found) {
      return Error{Code::kCorrupt, Cat(config.where(), ": layer ", layer, " is to have ",
                                       layers.moe[layer] ? "experts" : "a dense feed-forward part",
                                       ": expected ", expected, ", found ", found)};
    };
    for (const std::string& name : layers.moe[layer] ? moe : dense) {
      const std::string full = Cat("blk.", layer, ".", name);
      if (!present.contains(full)) return fail(Cat("tensors for ", full), "none");
    }
    for (const std::string& name : layers.moe[layer] ? dense : moe) {
      const std::string full = Cat("blk.", layer, ".", name);
      if (present.contains(full)) return fail(Cat("no tensors for ", full), "some");
    }
  }
  return Ok();
}

Result<MixedLayers> LeadingDenseLayers(const HfConfig& config, const HfShape& shape) {
  SHARD_TRY(const uint32_t dense, LeadingDense(config, shape));
  MixedLayers layers;
  layers.moe.assign(shape.layers + shape.mtp_layers, true);
  std::fill_n(layers.moe.begin(), std::min(dense, shape.layers), false);
  return layers;
}

Status CheckLeadingDense(const HfConfig& config, const HfShape& shape, bool selection_bias,
                         const std::vector<GgufTensor>& tensors) {
  SHARD_TRY(MixedLayers layers, LeadingDenseLayers(config, shape));
  layers.selection_bias = selection_bias;
  return CheckMixedLayers(config, layers, tensors);
}

Status AddLimits(const HfConfig& config, const HfShape& shape, const char* field, const char* key,
                 ArchKeys& keys) {
  const auto list = config.Find({field});
  if (!list) return Ok();
  if (!list->value->is_array() || list->value->size() < shape.layers) {
    return config.Wrong(*list, Cat("a list of at least ", Plural(shape.layers, "number")));
  }
  std::vector<float> limits(shape.layers + shape.mtp_layers);
  for (size_t i = 0; i < std::min(limits.size(), list->value->size()); ++i) {
    const Json& limit = (*list->value)[i];
    if (!limit.is_null() && !limit.is_number()) return config.Wrong(*list, "numbers");
    limits[i] = limit.is_null() ? 0 : limit.get<float>();
  }
  keys.F32s(key, limits);
  return Ok();
}

void ReadLimits(SpecKeys& keys, const char* key, float LayerSpec::*limit, ModelSpec& spec) {
  constexpr float kNoLimit = 1e-6f;  // llama.cpp treats a limit up to this as none
  const std::vector<float> limits = keys.Floats(key, spec.layers);
  for (uint32_t layer = 0; layer < spec.layers && !limits.empty(); ++layer)
    spec.layer[layer].*limit = limits[layer] > kNoLimit ? limits[layer] : 0;
}

Result<std::vector<bool>> ReadWindowed(const HfConfig& config, const HfShape& shape,
                                       ConfigKeys field) {
  SHARD_TRY(const std::vector<LayerKind> kinds,
            ReadBlockKinds(config, shape, field, {LayerKind::kWindow, LayerKind::kFull}));
  std::vector<bool> windowed;
  for (const LayerKind kind : kinds) windowed.push_back(kind == LayerKind::kWindow);
  return windowed;
}

Status CheckWindowPeriod(const HfConfig& config, const HfShape& shape, uint32_t period,
                         bool full_first) {
  SHARD_TRY(const BlockCounts counts, CountBlocks(config, shape));
  ConfigFaults faults;
  SHARD_TRY(const LayerKinds read, ReadLayerKinds(config, counts, faults));
  SHARD_CHECK(CheckFaults(config, faults));
  if (read.field.empty()) return Ok();
  for (uint32_t layer = 0; layer < shape.layers; ++layer) {
    const bool full = (full_first ? layer : layer + 1) % period == 0;
    const LayerKind expected = full ? LayerKind::kFull : LayerKind::kWindow;
    if (read.layers[layer].kind == expected) continue;
    return CannotHold(config,
                      Cat(read.field, "[", layer, "]: expected ", LayerKindName(expected),
                          ", as the runtime has it, found ", Quoted(read.layers[layer].words)));
  }
  return Ok();
}

std::vector<int32_t> ByWindow(const std::vector<bool>& windowed, uint32_t window, uint32_t full) {
  std::vector<int32_t> numbers;
  for (const bool narrow : windowed) {
    numbers.push_back(static_cast<int32_t>(narrow ? window : full));
  }
  return numbers;
}

Status AddWindowKey(const HfConfig& config, ArchKeys& keys) {
  SHARD_TRY(const uint32_t window, config.U32(fields::kWindow));
  keys.U32("attention.sliding_window", window);
  return Ok();
}

void FillWindows(SpecKeys& keys, const WindowRule& rule, ModelSpec& spec) {
  const uint32_t window = keys.Uint("attention.sliding_window", 0);
  const std::vector<bool> listed = rule.reads_pattern
                                       ? keys.Flags("attention.sliding_window_pattern", spec.layers)
                                       : std::vector<bool>();
  for (uint32_t layer = 0; layer < spec.layers; ++layer) {
    const bool windowed = listed.empty() ? (layer + 1) % rule.period != 0 : listed[layer];
    if (windowed) spec.layer[layer].window = window;
  }
}

Status CheckKeyHeads(const HfConfig& config, ConfigKeys field, uint32_t heads, uint32_t key_heads) {
  if (key_heads > 0 && heads % key_heads == 0) return Ok();
  return config.Wrong(*config.Find(field), Cat("a divisor of the ", heads, " attention heads"));
}

namespace {

// "linear_attention or full_attention"
std::string NamesOf(std::initializer_list<LayerKind> kinds) {
  std::string names;
  for (const LayerKind* kind = kinds.begin(); kind != kinds.end(); ++kind) {
    const char* before = kind == kinds.begin() ? "" : kind + 1 == kinds.end() ? " or " : ", ";
    names += Cat(before, LayerKindName(*kind));
  }
  return names;
}

}  // namespace

Result<BlockCounts> CountBlocks(const HfConfig& config, const HfShape& shape) {
  SHARD_TRY(const std::vector<uint32_t> announced, config.FindU32s(fields::kMtpLayers));
  const auto most = std::max_element(announced.begin(), announced.end());
  return BlockCounts{shape.layers, most == announced.end() ? 0 : *most};
}

Result<std::vector<LayerKind>> ReadBlockKinds(const HfConfig& config, const HfShape& shape,
                                              ConfigKeys field,
                                              std::initializer_list<LayerKind> known) {
  SHARD_TRY(const BlockCounts counts, CountBlocks(config, shape));
  ConfigFaults faults;
  SHARD_TRY(const LayerKinds read, ReadLayerKinds(config, counts, faults));
  SHARD_CHECK(CheckFaults(config, faults));
  if (read.field.empty()) return config.Missing(field, "the kind of each layer");
  std::vector<LayerKind> kinds(shape.layers + shape.mtp_layers, LayerKind::kFull);
  for (size_t i = 0; i < std::min(kinds.size(), read.layers.size()); ++i) {
    kinds[i] = read.layers[i].kind;
    if (std::find(known.begin(), known.end(), kinds[i]) != known.end()) continue;
    if (kinds[i] == LayerKind::kOther) {
      return Error{Code::kCorrupt, Cat(config.where(), ": ", read.field, "[", i, "]: expected ",
                                       NamesOf(known), ", found ", Quoted(read.layers[i].words))};
    }
    return CannotHold(config, Cat(read.field, "[", i, "]: expected ", NamesOf(known),
                                  ", the kinds of layers that the runtime has here, found ",
                                  Quoted(read.layers[i].words)));
  }
  return kinds;
}

Status CheckKindTensors(const HfConfig& config, const std::vector<LayerKind>& kinds,
                        const std::vector<KindTensors>& rows,
                        const std::vector<GgufTensor>& tensors) {
  std::set<std::string_view> present;
  for (const GgufTensor& tensor : tensors) present.insert(tensor.name);
  for (size_t layer = 0; layer < kinds.size(); ++layer) {
    for (const KindTensors& row : rows) {
      const bool expected = row.kind == kinds[layer];
      for (const char* name : row.names) {
        const std::string full = Cat("blk.", layer, ".", name);
        if (present.contains(full) == expected) continue;
        return Error{Code::kCorrupt,
                     Cat(config.where(), ": layer ", layer, ": expected a layer of ",
                         LayerKindName(kinds[layer]), " as the config has it, found ",
                         expected ? "no " : "", full)};
      }
    }
  }
  return Ok();
}

Status CheckFullAttention(const HfConfig& config, const HfShape& shape) {
  SHARD_TRY(const BlockCounts counts, CountBlocks(config, shape));
  ConfigFaults faults;
  SHARD_TRY(const LayerKinds read, ReadLayerKinds(config, counts, faults));
  SHARD_CHECK(CheckFaults(config, faults));
  for (const NamedKind& layer : read.layers) {
    if (layer.kind == LayerKind::kUnnamed || layer.kind == LayerKind::kFull) continue;
    return CannotHold(config, Cat(read.field, ": expected full attention in every layer, which is ",
                                  "what the runtime computes, found ", Quoted(layer.words)));
  }
  return Ok();
}

}  // namespace moepack
