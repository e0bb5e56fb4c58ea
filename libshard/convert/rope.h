// Rotary position embedding: its keys, and the factors that some runtimes read as a tensor.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/arch_keys.h"
#include "libshard/model/hf_config.h"

namespace moepack {

// What a family's runtime understands.
struct RopeSupport {
  std::optional<float> default_theta;  // of the config class, where a config may leave it out
  bool llama3 = false;                 // reads the tensor rope_freqs.weight
  bool log_multiplier = false;         // reads rope.scaling.yarn_log_multiplier (mscale_all_dim)
  bool longrope = false;  // reads rope_factors_long.weight and rope_factors_short.weight
};

// rope.freq_base, rope.scaling.* and rope.dimension_sections. kUnsupported for a scaling that would
// have to be a tensor the runtime does not read; one that it cannot express is a warning, since
// only texts beyond the trained length differ.
Status AddRopeKeys(const HfConfig& config, const RopeSupport& support, ArchKeys& keys,
                   std::vector<std::string>& warnings);

// The values of rope_freqs.weight, one per pair of a head of `head_size` values: the divisor of the
// pair's angle. Empty unless the config asks for the "llama3" scaling. In 32-bit floating point as
// llama.cpp's converter computes them.
Result<std::vector<float>> RopeFactors(const HfConfig& config, uint32_t head_size);

// What a runtime reads as a tensor of F32: its name, and one divisor per pair of a head.
struct RopeTensor {
  std::string name;
  std::vector<float> values;
};
// RopeFactors, or the two lists of the "longrope" scaling; those that `support` has. kCorrupt for
// lists of another length than half a head.
Result<std::vector<RopeTensor>> RopeTensors(const HfConfig& config, const RopeSupport& support,
                                            uint32_t head_size);

}  // namespace moepack
