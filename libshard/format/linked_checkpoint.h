// Checkpoints whose files may be links out of their directory: a node shares its trunk with others,
// and whoever opens it compares every file with a digest that does not come through the link.
#pragma once

#include "libshard/base/result.h"
#include "libshard/format/checkpoint.h"

namespace shard {

// As Checkpoint::Open, but the parts of a GGUF set may be links to anywhere. REQUIRES: the caller
// checks the bytes by digest.
Result<Checkpoint> OpenLinkedCheckpoint(const fs::path& source);

}  // namespace shard
