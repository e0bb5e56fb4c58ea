// Models of linked checkpoints (linked_checkpoint.h).
#pragma once

#include "libshard/base/result.h"
#include "libshard/format/linked_checkpoint.h"
#include "libshard/model/model.h"

namespace shard {

// Like MoeModel::Open, under the condition of OpenLinkedCheckpoint.
Result<MoeModel> OpenLinkedModel(const fs::path& source, const ModelOptions& options = {});

}  // namespace shard
