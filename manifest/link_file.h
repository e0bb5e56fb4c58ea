// Puts one file's content at a second path, without copying where the file system can.
#pragma once

#include "libshard/file.h"
#include "libshard/result.h"
#include "manifest/assemble.h"

namespace manifest {

// The word for a kind: "hardlink".
const char* LinkName(LinkKind kind);

// Makes `to`, which must not exist, the content of `from`. Returns the kind that was used; for
// kAuto that is a hard link, else shared extents, else a copy. A symlink is relative to `home`, the
// directory that `to` will be moved to; until then it leads nowhere. kIo, with the reason and a
// hint, when the wanted kind does not work here.
Result<LinkKind> LinkFile(const shard::fs::path& from, const shard::fs::path& to,
                          const shard::fs::path& home, LinkKind kind);

}  // namespace manifest
