// Fetches one file from another machine: resumed where it stopped, hashed before it appears.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "libshard/base/files/byte_source.h"
#include "libshard/base/files/cell_digest.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/progress.h"
#include "libshard/base/result.h"
#include "manifest/registry/transfer/piece_buffers.h"

namespace moepack::registry {

// The hint of errors about a corrupt copy on a server. A layout behind it is mended by publishing
// again; a registry answers that it has the blob, and stores no other bytes for it.
inline constexpr const char* kCorruptOnServerHint =
    "the copy on the server is corrupt: publish it again; a registry keeps the blobs that it has, "
    "so have this one deleted there first";

// What a file must be. Its author is responsible for it: only its form is checked.
struct StatedContent {
  std::string name;    // its name in messages: "models: blob sha256:... (groups/001/experts.gguf)"
  std::string sha256;  // 64 digits
  uint64_t size = 0;
  // The chunk map, used if its cells have FetchOptions::cell_bytes: then only the wrong ones are
  // fetched again.
  CellDigests cells = {};
};

struct FetchOptions {
  uint64_t cell_bytes = kMapCellBytes;  // what is noted as done at once
  size_t piece_bytes = 8u << 20;        // of one request; each connection has such a buffer
  size_t connections = 4;               // requests at once
  uint64_t parallel_from = 256u << 20;  // smaller files take one connection each
  size_t files = 4;                     // FetchFiles: concurrently
  // Callbacks may be empty; they are called from any thread, one at a time. `progress` gets how
  // many bytes are there, which decreases if corrupt ones are fetched again; `rehashed` gets how
  // many of those left by an earlier run are hashed, of a total that grows as files begin.
  OnProgress progress = {}, rehashed = {};
  std::function<void(const std::string&)> warn = {};
};

struct FetchReport {
  uint64_t fetched_bytes = 0;  // from the source, including what was fetched again
  uint64_t resumed_bytes = 0;  // left by an earlier run
  uint64_t again_bytes = 0;    // of `fetched_bytes`: to replace corrupt ones
  bool by_another = false;     // another process fetched it meanwhile
};

// Fetches the file as `name` into the directory, through `<name>.part` and `<name>.cells`, which
// stay after an error or an interrupt, so that the next call resumes there. The whole file is
// hashed before it gets its name, replacing any existing file. Wrong bytes are fetched again once.
// Errors are those of the source; kInvalidArgument if `stated` is malformed; kCorrupt if the source
// has another size or delivers wrong bytes twice, and then nothing is left; kIo, with the needed
// and the free space, if the disk is full; kInterrupted. Two processes may fetch the same file into
// the same directory: that is safe without a lock as long as they state the same content and no
// source delivers wrong bytes meanwhile; a lock avoids fetching twice.
Result<FetchReport> FetchFile(const ByteSource& from, const StatedContent& stated,
                              const InsideDirectory& directory, const std::string& name,
                              const FetchOptions& options);
// The same with buffers shared with other files; they determine the number of connections and the
// size of pieces.
Result<FetchReport> FetchFile(const ByteSource& from, const StatedContent& stated,
                              const InsideDirectory& directory, const std::string& name,
                              const FetchOptions& options, PieceBuffers& buffers);

}  // namespace moepack::registry
