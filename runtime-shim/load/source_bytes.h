// Where the bytes of a checkpoint's files lie in memory. The files are mapped; those of a
// checkpoint that is put together from the parts of a distribution are found in the parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "libshard/base/file.h"
#include "libshard/base/result.h"
#include "libshard/format/checkpoint.h"
#include "libshard/pack/slice.h"

namespace moepack::runtime {

using ByteView = std::span<const std::byte>;
using FilePtr = std::shared_ptr<const moepack::MappedFile>;

// Maps a file whose header was read before, with the errors of OpenUnchanged.
Result<FilePtr> MapAgain(const SourceFile& file);

class SourceBytes {
 public:
  // `view` holds the bytes of `file` from `offset` on. A later one at the same place replaces it.
  // REQUIRES: stretches do not overlap otherwise.
  void Add(uint32_t file, uint64_t offset, ByteView view);
  // The views that hold the range, in order; those that follow each other in memory are one.
  // kMismatch when some of it is in none.
  Status Find(const SourceRange& range, std::vector<ByteView>& views) const;

 private:
  std::map<std::pair<uint32_t, uint64_t>, ByteView> stretches_;
};

}  // namespace moepack::runtime
