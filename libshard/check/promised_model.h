// A model of which only config.json is there. It is opened as if a checkpoint with the promised
// tensors lay beside it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/model.h"

namespace shard {

// The config that `source` is or holds when it has no tensors: a .json file that is not an index,
// or a directory with config.json and neither safetensors, index nor GGUF.
std::optional<fs::path> ConfigAlone(const fs::path& source);

struct PromisedModel {
  MoeModel model;  // model.checkpoint().promised()
  // See PromisedTensors.
  std::vector<std::string> missing;
  std::string stored, unfollowed;
};
// kUnsupported as for a checkpoint, and when the config does not give the size of the experts.
Result<PromisedModel> OpenPromised(const fs::path& source, const fs::path& config,
                                   const ModelOptions& options);

}  // namespace shard
