// One pass over a file that is being fetched: the cells that it lacks come, and all of it is
// hashed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "libshard/base/byte_progress.h"
#include "libshard/base/files/byte_source.h"
#include "libshard/base/result.h"
#include "manifest/registry/transfer/part_file.h"
#include "manifest/registry/transfer/piece_buffers.h"

namespace moepack::registry {

struct PassOptions {
  size_t connections = 1;  // reads of this file at once
  // Bytes of the file that are there.
  std::function<void(uint64_t there)> progress;
  // Of the bytes that an earlier run left, how many are hashed.
  ByteReport rehashed;
};

struct PassOutcome {
  std::string sha256;  // of the file as it is on the disk, 64 digits
  uint64_t fetched_bytes = 0;
};

// Reads pieces of a cell in ascending order, several at once, and hashes from the page cache what
// is there from the beginning on without a gap, so that a fresh file needs no second pass. At most
// `connections` + 1 cells are begun and not yet noted as done; that much is lost when the process
// is killed. After an error, or an interrupt (kInterrupted), cells that are whole are kept.
// Callbacks come from any thread, one at a time. REQUIRES: source and part have the same size.
Result<PassOutcome> FetchMissing(const ByteSource& from, PartFile& part, PieceBuffers& buffers,
                                 const PassOptions& options);

}  // namespace moepack::registry
