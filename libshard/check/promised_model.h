// A model of which only config.json is there. It is opened as if a checkpoint with the promised
// tensors lay beside it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/model.h"

namespace moepack {

// The file that is the config of `source` when it has no tensors: a .json file that is not an
// index, or config.json of a tree with neither safetensors, index nor GGUF. None otherwise, also
// where the tree cannot be read: opening the checkpoint says why.
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
