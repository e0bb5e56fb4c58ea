// Opens a model of which only config.json is there, as if a checkpoint with the promised tensors
// lay beside it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/model.h"

namespace moepack {

// Returns the config of a source that has no tensors: a .json file that is not an index, or
// config.json of a tree with neither safetensors, index nor GGUF. No value otherwise, also when the
// tree cannot be read, since opening the checkpoint then says why.
std::optional<std::string> ConfigAlone(const Source& source);

struct PromisedModel {
  MoeModel model;  // model.checkpoint().promised()
  // See PromisedTensors.
  std::vector<std::string> missing;
  std::string stored, unfollowed;
};
// kUnsupported as for a checkpoint, and when the config does not give the size of the experts.
Result<PromisedModel> OpenPromised(const Source& source, const std::string& config,
                                   const ModelOptions& options);

}  // namespace moepack
