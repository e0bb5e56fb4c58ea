// The files of a distribution that are loaded: headers compared with the manifest, bytes mapped.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/write/open_bundle.h"
#include "runtime-shim/load/part_selection.h"
#include "runtime-shim/load/source_bytes.h"

namespace moepack::runtime {

struct OpenedPart {
  manifest::OpenedBundle bundle;
  FilePtr file;
  // The bytes of a tensor of the bundle.
  ByteView Bytes(const manifest::PartTensor& tensor) const {
    return file->bytes().subspan(tensor.entry.offset, tensor.entry.bytes);
  }
};

// Opens files of one split. kMismatch when a file's header is not what the manifest says, or two
// files are of different models. Borrows the split.
class PartOpener {
 public:
  explicit PartOpener(const Split& split) : split_(split) {}
  Result<std::vector<OpenedPart>> Open(const Bundles& files);

 private:
  const Split& split_;
  std::string model_, first_;  // what the first file says, and which that is
};

}  // namespace moepack::runtime
