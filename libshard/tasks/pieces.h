// The files that a task writes: one for each output that it has a part of, with these parts.
#pragma once

#include <cstdint>
#include <vector>

#include "libshard/format/output_file.h"
#include "libshard/tasks/fragments.h"

namespace moepack {

// `bytes` bytes at `piece` of a piece are those at `file` of the output.
struct PieceRun {
  uint64_t piece = 0, file = 0, bytes = 0;
  bool operator==(const PieceRun&) const = default;
};

struct Piece {
  uint32_t output = 0;         // its index in the list of outputs
  OutputFile file;             // path: that of the output followed by kPieceSuffix
  std::vector<PieceRun> runs;  // ascending in both files
};

inline constexpr const char* kPieceSuffix = ".piece";

// Returns the pieces of a task that has these `fragments` (WorkDivision::Of). `headers`: also the
// headers of all outputs, each at the beginning of its piece. Bytes are at the same offset modulo a
// page as in the output, so that a file system with shared extents can share them.
std::vector<Piece> CutPieces(const std::vector<OutputFile>& outputs,
                             const std::vector<Fragment>& fragments, bool headers);

}  // namespace moepack
