// Gives a file's content a second name, without copying if the file system can.
#pragma once

#include <cstdint>
#include <string>

#include "libshard/base/files/byte_source.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/progress.h"
#include "libshard/base/result.h"

namespace moepack::manifest {

// How a file gets into a directory unchanged. kAuto tries hard link, reflink and copy, in this
// order. Symlinks are relative, so that a tree with both ends can be moved.
enum class LinkKind : uint8_t { kAuto, kHardlink, kReflink, kSymlink, kCopy };
// Returns the word for a kind: "hardlink".
const char* LinkName(LinkKind kind);

struct LinkOptions {
  LinkKind kind = LinkKind::kAuto;
  fs::path home;  // the final place of `directory`
  // Called with the number of bytes of each step of a copy; may be empty.
  PieceDone copied = {};
};

// Whether a file at `from` will take its bytes again in a directory at `out`, which need not exist
// yet. A file system without links of its own files may still make a copy of one.
bool WillCopy(const fs::path& from, const std::string& out, LinkKind kind);

// Creates `name` in `directory` with the content of `from`, and returns the kind that was used.
// kAuto tries a hard link, then shared extents, then a copy. A symlink is relative to `home`, and
// dangles until the directory is moved there. kIo, with the reason and a hint, if the requested
// kind does not work here. REQUIRES: `name` does not exist.
Result<LinkKind> LinkFile(const fs::path& from, const InsideDirectory& directory,
                          const std::string& name, const LinkOptions& options);

// The same for bytes on another machine, which can only be copied; any kind but kAuto and kCopy is
// kInvalidArgument.
Result<LinkKind> LinkFile(const ByteSource& from, const InsideDirectory& directory,
                          const std::string& name, const LinkOptions& options);

}  // namespace moepack::manifest
