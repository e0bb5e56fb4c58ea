// One pass over a file that is being fetched: its missing cells are fetched, and all of it is
// hashed.
#pragma once

#include <cstdint>
#include <string>

#include "libshard/base/files/byte_source.h"
#include "libshard/base/result.h"
#include "manifest/registry/transfer/fetch_file.h"
#include "manifest/registry/transfer/part_file.h"
#include "manifest/registry/transfer/piece_buffers.h"

namespace moepack::registry {

struct PassOutcome {
  std::string sha256;  // of the file as it is on disk, 64 digits
  uint64_t fetched_bytes = 0;
};

// Reads pieces of a cell in ascending order, several at once, and hashes from the page cache what
// is there without a gap from the beginning, so that a fresh file needs no second pass. At most
// `connections` + 1 cells are begun and not yet noted as done; that much is lost if the process is
// killed. After an error, or an interrupt (kInterrupted), complete cells are kept. Callbacks are
// called from any thread, one at a time. REQUIRES: source and part have the same size.
Result<PassOutcome> FetchMissing(const ByteSource& from, PartFile& part, PieceBuffers& buffers,
                                 const FetchOptions& options);

}  // namespace moepack::registry
