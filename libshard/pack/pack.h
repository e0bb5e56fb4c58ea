// Writes the files that the slicers laid out. Every source byte is read only once, and hashed and
// written for each output that contains it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/digest.h"
#include "libshard/base/files/cell_digest.h"
#include "libshard/base/files/staging.h"
#include "libshard/base/progress.h"
#include "libshard/base/result.h"
#include "libshard/base/tool_version.h"
#include "libshard/format/checkpoint.h"
#include "libshard/format/grid_report.h"
#include "libshard/pack/slice.h"

namespace moepack {

struct FileDigests {
  std::string sha256;  // of the whole file
  Xxh3List tensors;    // of each tensor, in the file's order
  CellDigests cells = {};
};

struct PackOptions {
  size_t jobs = 0;              // reading, hashing and writing threads; 0: twice the cores
  uint64_t memory = 64u << 20;  // upper bound for buffers, in bytes; a single row may exceed it
  uint64_t cell_bytes = 0;      // hash each cell of outputs with several cells; 0: none
  uint64_t copied_later = 0;    // what the caller will put beside the outputs, for the free space
  bool keep_partial = false;    // keep what was written if an error ends the run
  OnProgress progress = {};     // called occasionally, from one thread at a time; may be empty
};

struct PackResult {
  std::vector<FileDigests> files;  // in the same order as the outputs
  uint64_t read_bytes = 0;         // from the sources
  uint64_t written_bytes = 0;      // to the outputs, without what an earlier run had written
  uint64_t resumed_bytes = 0;      // reused from an earlier, interrupted run
  // How many values of an output tensor are not finite, for tensors that have any. Only GGUF
  // tensors whose values are floats or were made from floats are inspected; copied quantized blocks
  // are not.
  std::map<std::string, uint64_t> not_finite;
  // Counts the weights that keep the source's grid, except those that an earlier run had written.
  GridReport grid;
};

// A digest of the output layout, of the identity of every source file, and of the moepack that
// writes. Runs with equal digests write equal bytes, so one can resume the other.
std::string PackIdentity(const std::vector<SourceFile>& sources,
                         const std::vector<OutputFile>& outputs,
                         std::string_view tool_version = ToolVersion());

// What a run fetches from other machines.
struct FetchEstimate {
  uint64_t bytes = 0, requests = 0;  // 0 when all sources are on this machine
  SourceRange sample;                // the largest request
};
// What Pack will fetch for `outputs` if nothing of them exists yet, without what reading the
// headers has already fetched.
FetchEstimate EstimateFetch(const std::vector<SourceFile>& sources,
                            const std::vector<OutputFile>& outputs, const PackOptions& options);

// Adds what reading every whole source file fetches.
void AddWholeFiles(const std::vector<SourceFile>& sources, FetchEstimate& estimate);

// Writes `outputs` below `staging.path()`. The run is refused before the first byte if the disk has
// too little room, and fails at the end if a source has changed meanwhile. The headers (`prefix`)
// are cleared from `outputs` once they are written, because in a large model they take as much
// memory as the names of all its tensors.
Result<PackResult> Pack(const std::vector<SourceFile>& sources, std::vector<OutputFile>& outputs,
                        StagingDirectory& staging, const PackOptions& options);

// Computes the digests of what Pack would write, and writes nothing.
Result<std::vector<FileDigests>> DigestOutputs(const std::vector<SourceFile>& sources,
                                               const std::vector<OutputFile>& outputs,
                                               const PackOptions& options);

}  // namespace moepack
