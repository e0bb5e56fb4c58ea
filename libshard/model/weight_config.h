// quantization_config of config.json: how quantized weights are stored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/hf_config.h"

namespace moepack {

// How the weights of some modules are stored. Fields that a method does not use stay 0.
struct WeightForm {
  std::string format;  // compressed-tensors: "pack-quantized", "float-quantized", ...
  // The rows and columns that share one scale of a scaled weight; 0: all of them.
  uint64_t block_rows = 0, block_columns = 0;
  uint32_t bits = 0;        // of packed integers: 2, 4 or 8
  uint64_t group_size = 0;  // values of a row with one scale; 0: all
  bool symmetric = true;    // no zero points: the middle code is zero
  bool integers = false;    // one byte per code: I8 in place of F8_E4M3
  bool mxfp4 = false;       // codes in pairs, with a power of two as the scale of each 32

  bool operator==(const WeightForm&) const = default;
};

// How methods pack the words of transposed matrices (weight_gptq.h).
enum class WordPacking : uint8_t { kNone, kGptq, kAwq };

// The form is that of all modules, unless there are others.
struct WeightConfig : WeightForm {
  std::string method;  // quant_method; "" for a checkpoint that is not quantized
  WordPacking packing = WordPacking::kNone;
  // GPTQ stores zero points minus one (except for checkpoint_format "gptq_v2").
  bool zeros_less_one = false;
  std::vector<std::string> unquantized;  // modules that are not scaled (fp8), sorted
  // Further forms, if some modules are stored in another way than the rest: config_groups,
  // dynamic, extra_config. The patterns of module names that these have are not read, because a
  // weight's tensors say which form is theirs (ReadWeight). None twice, and none that is the first.
  std::vector<WeightForm> others;
};

// kUnsupported, naming it, for a method or format other than fp8, compressed-tensors
// (pack-quantized, float-quantized, int-quantized, naive-quantized, nvfp4-pack-quantized,
// mxfp4-pack-quantized), mxfp4, modelopt (whose tensors say what they are), quark (fp4, fp8_e4m3),
// gptq, awq and auto-round; kCorrupt for fields with the wrong type or out of range.
Result<WeightConfig> ReadWeightConfig(const HfConfig& config);

}  // namespace moepack
