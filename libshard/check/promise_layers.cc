// What the config says about each layer: which of them have experts (moe_layers.h), and what mixes
// tokens in them (layer_kind.h).
#include <algorithm>

#include "libshard/check/promise.h"
#include "libshard/model/config_defaults.h"
#include "libshard/model/layer_kind.h"
#include "libshard/model/moe_layers.h"

namespace moepack {
namespace {

Status ReadAttention(const HfConfig& config, const BlockCounts& counts, ModelPromise& promise,
                     ConfigFaults& faults) {
  SHARD_TRY(const LayerKinds kinds, ReadLayerKinds(config, counts, faults));
  for (size_t layer = 0; layer < counts.layers; ++layer) {
    promise.layers[layer].kind = kinds.layers[layer].kind;
    promise.layers[layer].attention = kinds.layers[layer].words;
  }
  // DeepSeek-V4's first layers choose experts by the token's id.
  SHARD_TRY(const auto hashed, config.FindU32({"num_hash_layers"}));
  for (size_t layer = 0; hashed && layer < std::min<size_t>(*hashed, counts.layers); ++layer) {
    promise.layers[layer].attention += " hash";
  }
  return Ok();
}

Status ReadExperts(const HfConfig& config, const BlockCounts& counts, ModelPromise& promise,
                   ConfigFaults& faults) {
  SHARD_TRY(MoeLayers layers, ReadMoeLayers(config, counts, faults));
  promise.moe_key = layers.key;
  promise.mixers = layers.mixers;
  if (layers.key.empty() && promise.facts.all_moe) {
    promise.moe_key = "the family";
    layers.moe.assign(counts.layers, true);
  }
  for (size_t layer = 0; layer < layers.moe.size(); ++layer) {
    promise.layers[layer].moe = layers.moe[layer];
  }
  return Ok();
}

}  // namespace

Status ReadLayers(const HfConfig& config, std::string_view defaults, ModelPromise& promise,
                  std::vector<CheckFinding>& findings) {
  const BlockCounts counts = {promise.layers.size(), promise.mtp.value_or(0)};
  ConfigFaults faults;
  SHARD_TRY(const HfConfig complete, config.WithDefaults(defaults));
  SHARD_CHECK(ReadAttention(complete, counts, promise, faults));
  SHARD_CHECK(ReadExperts(config, counts, promise, faults));
  for (ConfigFault& fault : faults) {
    findings.push_back({FindingKind::kConfig, std::move(fault.field), std::move(fault.expected),
                        std::move(fault.found)});
  }
  return Ok();
}

}  // namespace moepack
