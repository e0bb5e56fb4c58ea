// Puts one file's content under a second name, without copying where the file system can.
#pragma once

#include <string>

#include "libshard/base/file.h"
#include "libshard/base/inside_directory.h"
#include "libshard/base/result.h"
#include "manifest/node/assemble.h"

namespace moepack::manifest {

// The word for a kind: "hardlink".
const char* LinkName(LinkKind kind);

struct NodeLink {
  LinkKind kind = LinkKind::kAuto;
  fs::path home;  // the directory that the new one will be moved to
};

// Makes `name` in `directory`, where nothing has that name, the content of `from`. Returns the kind
// that was used; for kAuto that is a hard link, else shared extents, else a copy. A symlink is
// relative to `home`, and leads nowhere until the directory is there. kIo, with the reason and a
// hint, when the wanted kind does not work here.
Result<LinkKind> LinkFile(const fs::path& from, const InsideDirectory& directory,
                          const std::string& name, const NodeLink& link);

}  // namespace moepack::manifest
