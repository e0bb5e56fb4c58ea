// Rotary position embedding: writes its keys and makes the factors that some runtimes read as a
// tensor.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/base_keys.h"
#include "libshard/model/config_layers.h"
#include "libshard/model/hf_config.h"

namespace moepack {

// What a family's runtime supports.
struct RopeSupport {
  // the default of the config class, if a config may omit it
  std::optional<float> default_theta;
  bool llama3 = false;          // reads the tensor rope_freqs.weight
  bool log_multiplier = false;  // reads rope.scaling.yarn_log_multiplier (mscale_all_dim)
  // The family itself writes the keys of the "dynamic" scaling.
  bool own_dynamic = false;
  // Layers with a window have their own base, the second of a list in rope_theta, which becomes
  // rope.freq_base_swa.
  bool window_base = false;
  bool longrope = false;  // reads rope_factors_long.weight and rope_factors_short.weight
  // Configs may have one set of parameters for layers with full attention and another for those
  // with a window, which have only a base of their own, rope.freq_base_swa. There are no tensors
  // then.
  bool by_kind = false;
};

// Whether the config has a set of parameters for each kind of layer.
bool HasRopeKinds(const HfConfig& config);
// The set of parameters for layers of that kind, of a config that has one for each.
Result<HfConfig> RopeOfKind(const HfConfig& config, LayerKind layers);
// kUnsupported if the field says something that the runtime does not have.
Error OtherRope(const HfConfig& rope, const char* field, const std::string& expected,
                const std::string& found);

// kCorrupt unless `base`, which comes from rope_theta, is more than 1, which every runtime takes
// for granted.
Status CheckRopeBase(const HfConfig& rope, float base);

// Adds rope.freq_base, rope.scaling.* and rope.dimension_sections. kUnsupported for a scaling that
// needs a tensor that the runtime does not read. A scaling that GGUF cannot express is only a
// warning, because it changes only texts beyond the trained length.
Status AddRopeKeys(const HfConfig& config, const RopeSupport& support, ArchKeys& keys,
                   std::vector<std::string>& warnings);

// Returns the values of rope_freqs.weight, one per pair of a head of `head_size` values: the
// divisor of the pair's angle. Empty unless the config asks for the "llama3" scaling. They are
// computed in 32-bit floats, as in llama.cpp's converter.
Result<std::vector<float>> RopeFactors(const HfConfig& config, uint32_t head_size,
                                       const RopeSupport& support = {});

// An F32 tensor of factors: its name, and one divisor per pair of a head.
struct RopeTensor {
  std::string name;
  std::vector<float> values;
};
// Returns RopeFactors, or the two lists of the "longrope" scaling, as far as `support` allows.
// kCorrupt for lists whose length is not half a head.
Result<std::vector<RopeTensor>> RopeTensors(const HfConfig& config, const RopeSupport& support,
                                            uint32_t head_size);

}  // namespace moepack
