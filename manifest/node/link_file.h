// Gives a file's content a second name, without copying where the file system can.
#pragma once

#include <string>

#include "libshard/base/file.h"
#include "libshard/base/inside_directory.h"
#include "libshard/base/result.h"
#include "manifest/node/assemble.h"

namespace moepack::manifest {

// Returns the word for a kind: "hardlink".
const char* LinkName(LinkKind kind);

struct NodeLink {
  LinkKind kind = LinkKind::kAuto;
  fs::path home;  // the final place of `directory`
};

// Creates `name` in `directory` with the content of `from`, and returns the kind that was used.
// kAuto tries a hard link, then shared extents, then a copy. A symlink is relative to `home`, and
// leads nowhere until the directory is moved there. kIo, with the reason and a hint, when the
// wanted kind does not work here. REQUIRES: `name` does not exist.
Result<LinkKind> LinkFile(const fs::path& from, const InsideDirectory& directory,
                          const std::string& name, const NodeLink& link);

}  // namespace moepack::manifest
