#include "libshard/tasks/pieces.h"

#include "libshard/base/bytes.h"

namespace moepack {
namespace {

// The first position from `position` on that equals `place` modulo a page.
uint64_t Congruent(uint64_t position, uint64_t place) {
  return position + (place % kPageBytes + kPageBytes - position % kPageBytes) % kPageBytes;
}

void AddRun(const PieceRun& run, std::vector<PieceRun>& runs) {
  if (!runs.empty()) {
    PieceRun& last = runs.back();
    const bool follows = last.piece + last.bytes == run.piece && last.file + last.bytes == run.file;
    if (follows) {
      last.bytes += run.bytes;
      return;
    }
  }
  runs.push_back(run);
}

void AddFragment(const OutputTensor& tensor, const Fragment& fragment, Piece& piece) {
  const uint64_t place = tensor.entry.offset + fragment.offset;
  const uint64_t at = Congruent(piece.file.size, place);
  // What comes before the first tensor belongs to the header; a stream pads with zeros only after a
  // tensor.
  if (piece.file.tensors.empty()) piece.file.prefix.resize(at, '\0');
  piece.file.tensors.push_back(FragmentTensor(tensor, fragment, at));
  piece.file.size = at + fragment.bytes;
  AddRun({at, place, fragment.bytes}, piece.runs);
}

}  // namespace

std::vector<Piece> CutPieces(const std::vector<OutputFile>& outputs,
                             const std::vector<Fragment>& fragments, bool headers) {
  std::vector<Piece> pieces;
  size_t next = 0;
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    Piece piece;
    piece.output = i;
    piece.file.path = outputs[i].path + kPieceSuffix;
    piece.file.role = outputs[i].role;
    piece.file.group = outputs[i].group;
    if (headers) {
      piece.file.prefix = outputs[i].prefix;
      piece.file.size = piece.file.prefix.size();
    }
    for (; next < fragments.size() && fragments[next].output == i; ++next) {
      AddFragment(outputs[i].tensors[fragments[next].tensor], fragments[next], piece);
    }
    if (headers || !piece.file.tensors.empty()) pieces.push_back(std::move(piece));
  }
  return pieces;
}

}  // namespace moepack
