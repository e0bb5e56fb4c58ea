// Opens a model that has only config.json, as if a checkpoint with the promised tensors were
// beside it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/check/promise.h"
#include "libshard/format/tensor.h"
#include "libshard/model/family.h"
#include "libshard/model/model.h"

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

// Returns the config of a source that has no tensors: a .json file that is not an index, or
// config.json of a tree with neither safetensors nor GGUF; it may have an index whose files are not
// there. No value otherwise, or if the tree cannot be read, because opening the checkpoint then
// says why.
std::optional<std::string> ConfigAlone(const Source& source);

// Returns the index of a tree that has no file of tensors, neither one that the index names nor
// another. No value in the same cases as above.
std::optional<std::string> IndexAlone(const Source& source);

struct PromisedModel {
  MoeModel model;  // model.checkpoint().promised()
  // See PromisedTensors.
  std::vector<std::string> missing;
  std::string stored, unfollowed;
  bool partial = false;
};
// kUnsupported in the same cases as for a checkpoint, and if the config does not give the size of
// the experts.
Result<PromisedModel> OpenPromised(const Source& source, const std::string& config,
                                   const ModelOptions& options);

}  // namespace moepack
