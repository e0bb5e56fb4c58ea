// Brings one file from another machine: resumed where it stopped, hashed before it appears.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "libshard/base/byte_progress.h"
#include "libshard/base/files/byte_source.h"
#include "libshard/base/files/cell_digest.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/result.h"
#include "manifest/registry/transfer/piece_buffers.h"

namespace moepack::registry {

// What a file has to be. Whoever makes it answers for it: it is checked for nothing but its form.
struct Promise {
  std::string name;    // what messages call it: "models: blob sha256:... (groups/001/experts.gguf)"
  std::string sha256;  // 64 digits
  uint64_t size = 0;
  // The chunk map, used if its cells have FetchOptions::cell_bytes: then only those that are wrong
  // are fetched again.
  CellDigests cells = {};
};

struct FetchOptions {
  uint64_t cell_bytes = kMapCellBytes;  // what is noted as done at once
  size_t piece_bytes = 8u << 20;        // of one request; each connection has a buffer of it
  size_t connections = 4;               // requests at once
  uint64_t parallel_from = 256u << 20;  // smaller files take one connection each
  // Callbacks may be empty; they come from any thread, one at a time. `progress` is told how many
  // bytes of the file are there, which become fewer when damaged ones are fetched again; `rehashed`
  // how many of those that an earlier run left are hashed.
  std::function<void(uint64_t there)> progress = {};
  ByteReport rehashed = {};
  std::function<void(const std::string&)> warn = {};
};

struct FetchReport {
  uint64_t fetched_bytes = 0;  // from the source, with what was fetched again
  uint64_t resumed_bytes = 0;  // left by an earlier run
  uint64_t again_bytes = 0;    // of `fetched_bytes`: in place of others that were damaged
  bool by_another = false;     // another process brought it meanwhile
};

// Brings the file under `name` into the directory, by `<name>.part` and `<name>.cells`, which stay
// after an error or an interrupt, so that the next call goes on from there. The whole file is
// hashed before it gets its name, in place of what was there. Bytes that are wrong are fetched
// again, once. Errors are those of the source; kInvalidArgument for a promise without form;
// kCorrupt when the source has another size, or gives wrong bytes twice, and then nothing is left;
// kIo with what is needed and free when the disk is full; kInterrupted. Two processes may fetch the
// same file into the same directory: that is safe without a lock as long as they are promised the
// same and no source gives wrong bytes meanwhile; a lock saves fetching twice.
Result<FetchReport> FetchFile(const ByteSource& from, const Promise& promise,
                              const InsideDirectory& directory, const std::string& name,
                              const FetchOptions& options);
// The same with buffers that are shared with other files, which say how many connections and how
// large pieces there are.
Result<FetchReport> FetchFile(const ByteSource& from, const Promise& promise,
                              const InsideDirectory& directory, const std::string& name,
                              const FetchOptions& options, PieceBuffers& buffers);

}  // namespace moepack::registry
