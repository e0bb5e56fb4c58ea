// A model of which only config.json is there: understood as if a checkpoint with the tensors that
// it promises lay beside it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/model.h"

namespace shard {

// The config that `source` is or holds when it has no tensors: a .json file that is no index, or a
// directory with config.json and neither safetensors, index nor GGUF.
std::optional<fs::path> ConfigAlone(const fs::path& source);

struct PromisedModel {
  MoeModel model;  // model.checkpoint().promised()
  // As in PromisedTensors.
  std::vector<std::string> missing;
  std::string stored, unfollowed;
};
// kUnsupported as for a checkpoint, and where the config does not tell the size of the experts.
Result<PromisedModel> OpenPromised(const fs::path& source, const fs::path& config,
                                   const ModelOptions& options);

}  // namespace shard
