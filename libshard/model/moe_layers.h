// Which layers of a model have experts, as its config says. Configs say this in many ways: by a
// list with an entry per layer, a list of layer numbers, or numbers from which it follows.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/hf_config.h"
#include "libshard/model/layer_list.h"

namespace moepack {

struct MoeLayers {
  std::string key;        // the name of the field that says it, "moe_layer_freq"; "" if none does
  bool mixers = false;    // each layer is attention or a feed-forward part, and not both
  std::vector<bool> moe;  // of every decoder layer; empty if no field says it
};

// kCorrupt for fields of a wrong type.
Result<MoeLayers> ReadMoeLayers(const HfConfig& config, const BlockCounts& counts,
                                ConfigFaults& faults);

}  // namespace moepack
