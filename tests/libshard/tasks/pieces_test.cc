#include "libshard/tasks/pieces.h"

#include <gmock/gmock.h>

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Two tensors of 10,000 bytes with a gap of 240 between them, after a header of 300 bytes.
OutputFile Output() {
  OutputFile file;
  file.path = "groups/000/experts.gguf";
  file.prefix = std::string(300, 'h');
  for (const uint64_t offset : {300u, 10540u}) {
    OutputTensor tensor;
    tensor.entry.offset = offset;
    tensor.entry.bytes = 10000;
    tensor.sources = {{0, offset + 77, 10000}};
    file.tensors.push_back(std::move(tensor));
  }
  file.size = 20540;
  return file;
}

std::vector<Fragment> Fragments(const OutputFile& file) {
  std::vector<Fragment> fragments;
  for (uint32_t i = 0; i < file.tensors.size(); ++i)
    CutTensor(file.tensors[i], 4096, {.output = 0, .tensor = i}, fragments);
  return fragments;
}

TEST(CutPieces, GivesTheHeadersToTheFirstTask) {
  const OutputFile file = Output();
  const std::vector<Piece> pieces = CutPieces({file, file}, {}, true);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[1].output, 1u);
  EXPECT_EQ(pieces[0].file.path, "groups/000/experts.gguf.piece");
  EXPECT_EQ(pieces[0].file.prefix, file.prefix);
  EXPECT_EQ(pieces[0].file.size, 300u);
  EXPECT_THAT(pieces[0].runs, IsEmpty());
  EXPECT_THAT(CutPieces({file, file}, {}, false), IsEmpty());
}

TEST(CutPieces, MergesAdjacentFragmentsIntoOneRun) {
  const OutputFile file = Output();
  const std::vector<Fragment> all = Fragments(file);
  ASSERT_EQ(all.size(), 6u);
  const Piece piece = CutPieces({file}, all, true)[0];
  EXPECT_THAT(piece.runs, ElementsAre(PieceRun{300, 300, 10000}, PieceRun{10540, 10540, 10000}));
}

TEST(CutPieces, KeepsTheOffsetsWithinAPageOfTheOutput) {
  const OutputFile file = Output();
  std::vector<Fragment> some = Fragments(file);
  some.erase(some.begin(), some.begin() + 2);
  some.erase(some.begin() + 1);
  const Piece piece = CutPieces({file}, some, false)[0];
  EXPECT_EQ(piece.runs.size(), 2u);
  for (const PieceRun& run : piece.runs) EXPECT_EQ(run.piece % 4096, run.file % 4096);
  EXPECT_EQ(piece.file.prefix, std::string(piece.runs[0].piece, '\0'));
  EXPECT_EQ(piece.file.tensors[0].entry.offset, piece.runs[0].piece);
  EXPECT_EQ(piece.file.size, piece.runs[1].piece + piece.runs[1].bytes);
}

}  // namespace
}  // namespace moepack
