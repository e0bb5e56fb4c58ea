// Lists the tensors that a config promises, with their shapes, for a model that has only
// config.json.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/check/promise.h"
#include "libshard/format/tensor.h"
#include "libshard/model/family.h"

namespace moepack {

struct PromisedTensors {
  // The tensors, with the names of the family's rows.
  std::vector<TensorEntry> tensors;
  // Parts that the model has but `tensors` lacks, because their sizes are not worked out here from
  // the config.
  std::vector<std::string> missing;
  // Some of them belong to the decoder, so that its counts are too low.
  bool partial = false;
  // How the weights are stored: "BF16", "F8_E4M3 in blocks of 128x128". For other quantized weights
  // it is the type before quantization, and `unfollowed` says how they are quantized.
  std::string stored, unfollowed;
};

// kUnsupported for a config that promises more tensors or larger ones than any model has; kCorrupt
// for fields of a wrong type.
Result<PromisedTensors> PromiseTensors(const HfConfig& config, const ModelConfig& model,
                                       const Family& family, const ModelPromise& promise);

}  // namespace moepack
