// Models whose files may be links out of their directory: a node shares its trunk with others, and
// whoever opens it compares every file with a digest that does not come through the link.
#pragma once

#include "libshard/checkpoint.h"
#include "libshard/model.h"
#include "libshard/result.h"

namespace shard {

// As Checkpoint::Open and MoeModel::Open, but the parts of a GGUF set may be links to anywhere.
// REQUIRES: the caller checks the bytes by digest.
Result<Checkpoint> OpenLinkedCheckpoint(const fs::path& source);
Result<MoeModel> OpenLinkedModel(const fs::path& source, const ModelOptions& options = {});

}  // namespace shard
