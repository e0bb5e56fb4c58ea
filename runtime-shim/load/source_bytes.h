// Finds the bytes of a checkpoint's files in memory. The files are mapped. For a checkpoint
// restored from the parts of a distribution, the bytes are found in the parts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "libshard/base/files/file.h"
#include "libshard/base/result.h"
#include "libshard/format/checkpoint.h"
#include "libshard/pack/slice.h"
#include "runtime-shim/executor/tensor_bytes.h"

namespace moepack::runtime {

using FilePtr = std::shared_ptr<const moepack::MappedFile>;

// Maps a file whose header was read before. Errors are those of OpenUnchanged.
Result<FilePtr> MapAgain(const SourceFile& file);

class SourceBytes {
 public:
  // Records that `view` holds the bytes of `file` from `offset` on. A later view at the same place
  // replaces it. REQUIRES: views do not overlap otherwise.
  void Add(uint32_t file, uint64_t offset, ByteView view);
  // Returns the views that hold the range, in order. Views that are adjacent in memory are joined.
  // kMismatch if part of the range is in no view.
  Status Find(const SourceRange& range, std::vector<ByteView>& views) const;

 private:
  std::map<std::pair<uint32_t, uint64_t>, ByteView> stretches_;
};

}  // namespace moepack::runtime
