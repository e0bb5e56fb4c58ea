// quantization_config of config.json: how quantized weights are stored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/hf_config.h"

namespace moepack {

// Fields that a method does not use stay 0.
struct WeightConfig {
  std::string method;  // quant_method; "" for a checkpoint that is not quantized
  std::string format;  // compressed-tensors: "pack-quantized", "float-quantized", ...
  // The rows and columns that share one scale of a scaled weight; 0: all of them.
  uint64_t block_rows = 0, block_columns = 0;
  uint32_t bits = 0;        // of packed integers: 2, 4 or 8
  uint64_t group_size = 0;  // values of a row with one scale; 0: all
  bool symmetric = true;    // no zero points: the middle code is zero
  // GPTQ stores zero points minus one (except for checkpoint_format "gptq_v2").
  bool zeros_less_one = false;
  std::vector<std::string> unquantized;  // modules that are not scaled (fp8), sorted
};

// kUnsupported, naming it, for a method or format other than fp8, compressed-tensors
// (float-quantized, naive-quantized, pack-quantized, nvfp4-pack-quantized), mxfp4, modelopt (whose
// tensors say what they are), gptq and awq; kCorrupt for fields with the wrong type or out of
// range.
Result<WeightConfig> ReadWeightConfig(const HfConfig& config);

}  // namespace moepack
