// Reads the fields of config.json that have an entry per layer.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/hf_config.h"

namespace moepack {

// A contradiction within a config.
struct ConfigFault {
  std::string field;  // "text_config.layer_types"
  std::string expected, found;
  bool operator==(const ConfigFault&) const = default;
};
using ConfigFaults = std::vector<ConfigFault>;

// Adds a fault that is not among them yet: lists of whole layers are read twice, for experts and
// for attention.
void AddFault(ConfigFaults& faults, ConfigFault fault);
// Ok, or the first fault as kCorrupt.
Status CheckFaults(const HfConfig& config, const ConfigFaults& faults);

struct BlockCounts {
  size_t layers = 0;  // decoder layers
  size_t mtp = 0;     // announced blocks for multi-token prediction
};

struct LayerList {
  std::string field;                 // its path
  std::vector<std::string> entries;  // numbers as they are written
};

// Returns the entries of a list: one per layer, and possibly one per announced block after those.
// No value when the field is absent or a number, and when its type, its length or an entry is
// wrong, which is a fault. With `letters`, a string is a list of its letters.
std::optional<LayerList> ReadLayerList(const HfConfig& config, ConfigKeys keys,
                                       const BlockCounts& counts, ConfigFaults& faults,
                                       bool letters = false);

// Reads the distance, in layers, between two layers of a kind. No value if it is absent, or 0,
// which is a fault.
Result<std::optional<uint32_t>> ReadLayerStep(const HfConfig& config, ConfigKeys keys,
                                              ConfigFaults& faults);

}  // namespace moepack
