#include "libshard/tasks/fragments.h"

#include <gmock/gmock.h>

#include "quant/format.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<Fragment> Cut(const OutputTensor& tensor, uint64_t size) {
  std::vector<Fragment> fragments;
  Fragment place;
  place.output = 2;
  place.tensor = 5;
  CutTensor(tensor, size, place, fragments);
  return fragments;
}

std::vector<uint64_t> Sizes(const std::vector<Fragment>& fragments) {
  std::vector<uint64_t> sizes;
  for (const Fragment& fragment : fragments) sizes.push_back(fragment.bytes);
  return sizes;
}

OutputTensor Copied(std::vector<SourceRange> sources) {
  OutputTensor tensor;
  for (const SourceRange& range : sources) tensor.entry.bytes += range.bytes;
  tensor.sources = std::move(sources);
  return tensor;
}

// Four experts of two rows of 32 values, BF16 to q8_0 (64 bytes a row to 34).
OutputTensor Encoded(std::vector<SourceRange> sources, bool weighted) {
  OutputTensor tensor = Copied(std::move(sources));
  tensor.entry.bytes = tensor.entry.bytes / 64 * 34;
  Encoding encoding;
  encoding.from = quant::FindFormat("bf16");
  encoding.to = quant::FindFormat("q8_0");
  encoding.row_values = 32;
  encoding.rows_per_slice = 2;
  if (weighted) {
    Importance importance{32, std::vector<float>(4 * 32, 1.0f), "digest"};
    encoding.importance = std::make_shared<const Importance>(std::move(importance));
  }
  tensor.encoding = std::make_shared<const Encoding>(std::move(encoding));
  return tensor;
}

TEST(Fragments, CoverATensorInTheOrderOfItsBytes) {
  const OutputTensor tensor = Copied({{0, 100, 10000}, {1, 0, 5000}});
  const std::vector<Fragment> fragments = Cut(tensor, 4096);
  uint64_t at = 0;
  std::vector<SourceRange> taken;
  for (const Fragment& fragment : fragments) {
    EXPECT_EQ(fragment.output, 2u);
    EXPECT_EQ(fragment.tensor, 5u);
    EXPECT_EQ(fragment.offset, at);
    at += fragment.bytes;
    const OutputTensor part = FragmentTensor(tensor, fragment, 7);
    EXPECT_EQ(part.entry.offset, 7u);
    EXPECT_EQ(part.entry.bytes, fragment.bytes);
    taken.insert(taken.end(), part.sources.begin(), part.sources.end());
  }
  EXPECT_EQ(at, 15000u);
  EXPECT_THAT(taken, ElementsAre(SourceRange{0, 100, 4096}, SourceRange{0, 4196, 4096},
                                 SourceRange{0, 8292, 1808}, SourceRange{1, 0, 4096},
                                 SourceRange{1, 4096, 904}));
}

TEST(Fragments, EndBetweenValuesInCopies) {
  for (const uint64_t size : {1u, 4097u, 9000u}) {
    const std::vector<Fragment> fragments = Cut(Copied({{0, 0, 100000}}), size);
    for (const Fragment& fragment : fragments) EXPECT_EQ(fragment.offset % 4096, 0u) << size;
  }
}

TEST(Fragments, CombineSmallRangesOfTheSameExpert) {
  EXPECT_THAT(Sizes(Cut(Copied({{0, 0, 10}, {0, 50, 10}, {0, 90, 10}}), 4096)), ElementsAre(30));
  EXPECT_THAT(Sizes(Cut(Copied({{0, 0, 10, 1}, {0, 50, 10, 1}, {0, 90, 10, 2}}), 4096)),
              ElementsAre(20, 10));
}

TEST(Fragments, AreWholeRowsOfEncodedTensors) {
  EXPECT_THAT(Sizes(Cut(Encoded({{0, 0, 512}}, false), 40)),
              ElementsAre(34, 34, 34, 34, 34, 34, 34, 34));
  EXPECT_THAT(Sizes(Cut(Encoded({{0, 0, 512}}, false), 110)), ElementsAre(102, 102, 68));
}

TEST(Fragments, AreWholeExpertsIfEachHasItsOwnImportance) {
  EXPECT_THAT(Sizes(Cut(Encoded({{0, 0, 512}}, true), 40)), ElementsAre(68, 68, 68, 68));
  EXPECT_THAT(Sizes(Cut(Encoded({{0, 0, 512}}, true), 140)), ElementsAre(136, 136));
  // The rows of an expert may be apart, as those of gate and up are.
  EXPECT_THAT(Sizes(Cut(Encoded({{0, 0, 64, 1}, {0, 900, 192, 2}, {0, 2000, 256, 3}}, true), 40)),
              ElementsAre(68, 68, 68, 68));
}

TEST(Fragments, UseTheImportanceOfTheirOwnExperts) {
  OutputTensor tensor = Encoded({{0, 0, 512}}, true);
  const std::vector<Fragment> fragments = Cut(tensor, 68);
  ASSERT_EQ(fragments.size(), 4u);
  EXPECT_THAT(FragmentTensor(tensor, fragments[2], 0).expert_ids, ElementsAre(2, 3));
  tensor.expert_ids = {3, 7, 9, 20};
  EXPECT_THAT(FragmentTensor(tensor, fragments[2], 0).expert_ids, ElementsAre(9, 20));
}

TEST(Fragments, ALiteralTensorHasOneAndAnEmptyTensorNone) {
  OutputTensor tensor;
  EXPECT_THAT(Cut(tensor, 100), IsEmpty());
  tensor.entry.bytes = 12;
  tensor.literal = std::make_shared<const std::string>("twelve bytes");
  const std::vector<Fragment> fragments = Cut(tensor, 4);
  EXPECT_THAT(Sizes(fragments), ElementsAre(12));
  EXPECT_EQ(FragmentTensor(tensor, fragments[0], 0).literal, tensor.literal);
}

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
