// Opens the files of a distribution that are loaded: compares their headers with the manifest, and
// maps their bytes.
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
  // Returns the bytes of a tensor of the bundle.
  ByteView Bytes(const manifest::PartTensor& tensor) const {
    return file->bytes().subspan(tensor.entry.offset, tensor.entry.bytes);
  }
};

// Opens the files of one split. kMismatch if a file's header differs from the manifest, or two
// files belong to different models. Borrows the split.
class PartOpener {
 public:
  explicit PartOpener(const Split& split) : split_(split) {}
  Result<std::vector<OpenedPart>> Open(const Bundles& files);

 private:
  const Split& split_;
  std::string model_, first_;  // the model of the first file, and the name of that file
};

}  // namespace moepack::runtime
