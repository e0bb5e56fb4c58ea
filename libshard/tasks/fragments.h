// Cuts the tensors of outputs into the runs of bytes that tasks consist of, and lays those of
// one task out as files.
#pragma once

#include <cstdint>
#include <vector>

#include "libshard/format/output_file.h"

namespace moepack {

// Copies are cut at whole pages, and so between values of every plain type.
inline constexpr uint64_t kPageBytes = 4096;

// Bytes of one output tensor that one task makes: whole rows if they are encoded, and whole experts
// if each has its own importance.
struct Fragment {
  uint32_t output = 0, tensor = 0;  // indexes into the list of outputs and into its tensors
  uint64_t offset = 0, bytes = 0;   // in the tensor, as written
  // The first of the sources (or rows) that it is made from, how much of that one is skipped, and
  // how many bytes (or rows) of the sources it takes from there on. A literal tensor has none.
  uint32_t first_range = 0;
  uint64_t skip = 0, taken = 0;
};

// Appends the fragments of one tensor in the order of its bytes: about `size` bytes each, at most
// one grain (a row, an expert, a page) more. An empty tensor has none.
void CutTensor(const OutputTensor& tensor, uint64_t size, const Fragment& place,
               std::vector<Fragment>& out);

// The fragment as a tensor of its own, at `offset` of a file. The packing engine makes the same
// bytes from it as from the whole tensor there.
OutputTensor FragmentTensor(const OutputTensor& tensor, const Fragment& fragment, uint64_t offset);

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
