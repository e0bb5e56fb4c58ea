// Gives a file's content a second name and hashes the result.
#pragma once

#include <cstdint>
#include <string>

#include "libshard/base/files/inside_directory.h"
#include "libshard/base/files/source_tree.h"
#include "libshard/base/progress.h"
#include "libshard/base/result.h"
#include "manifest/write/link_file.h"

namespace moepack::registry {

struct PlacedFile {
  manifest::LinkKind how = manifest::LinkKind::kCopy;
  std::string sha256;  // of the placed bytes, 64 digits
};

// Makes `name` in `to` with the content of `file`, as LinkFile does, and reads all of it once: a
// copy is hashed while it is made, a link afterwards. `read` is called with the number of bytes of
// each step; it may be empty. REQUIRES: `link` is not kSymlink, `from` is a tree on this machine,
// and `name` does not exist and is directly in `to`.
Result<PlacedFile> PlaceFile(const SourceTree& from, const std::string& file,
                             const InsideDirectory& to, const std::string& name,
                             manifest::LinkKind link, const PieceDone& read);

// SHA-256 of a file, as 64 digits.
Result<std::string> HashFile(const SourceTree& tree, const std::string& file,
                             const PieceDone& read);

}  // namespace moepack::registry
