// Reads how a config says weights are stored, as far as names, types and shapes follow from that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/config.h"
#include "libshard/model/family.h"
#include "libshard/model/hf_config.h"

namespace moepack {

struct PromisedStorage {
  std::string plain = "BF16";                  // dtype of what is not quantized
  uint64_t block_rows = 0, block_columns = 0;  // of FP8 in blocks; 0: no such blocks
  bool mxfp4_experts = false;
  std::vector<std::string> excluded;  // modules that are not FP8, sorted
  std::string description;            // "F8_E4M3 in blocks of 128x128"
  std::string unfollowed;             // a quantization that is not supported here; "" for none
};

// kCorrupt for fields of a wrong type, also in the section about quantization.
Result<PromisedStorage> ReadStorage(const HfConfig& config, const ModelConfig& model,
                                    const Family& family);

}  // namespace moepack
