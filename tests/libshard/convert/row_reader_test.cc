#include "libshard/convert/row_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace moepack {
namespace {

using testing::ElementsAre;

// A file of F32 values 0, 1, 2, ... to read rows from.
class RowReaders : public testing::Test {
 protected:
  static constexpr uint64_t kValues = 64;

  static RowReaderPtr Matrix(uint64_t rows, uint64_t width, uint64_t first = 0) {
    return PlainRows(quant::FindFormat("f32"), 0, first * sizeof(float), rows, width);
  }
  static std::vector<std::byte> Bytes(const RowReader& reader, uint64_t first, uint64_t count) {
    std::vector<float> file(kValues);
    for (size_t i = 0; i < kValues; ++i) file[i] = static_cast<float>(i);
    const auto bytes = std::as_bytes(std::span(file));
    std::vector<SourceRange> ranges;
    reader.AddReads(first, count, ranges);
    std::vector<std::byte> out;
    for (const SourceRange& range : ranges) {
      const auto part = bytes.subspan(range.offset, range.bytes);
      out.insert(out.end(), part.begin(), part.end());
    }
    EXPECT_EQ(out.size(), ReadBytes(reader, first, count));
    return out;
  }
  // Any part of the rows must equal the same part of all rows.
  static std::vector<float> Values(const RowReader& reader) {
    const uint64_t width = reader.row_values();
    std::vector<float> all(reader.rows() * width);
    EXPECT_TRUE(reader.Decode({0, reader.rows(), Bytes(reader, 0, reader.rows())}, all));
    for (uint64_t first = 0; first < reader.rows(); ++first) {
      for (uint64_t count = 1; first + count <= reader.rows(); ++count) {
        std::vector<float> part(count * width);
        EXPECT_TRUE(reader.Decode({first, count, Bytes(reader, first, count)}, part));
        EXPECT_EQ(0, std::memcmp(part.data(), all.data() + first * width, part.size() * 4))
            << first << " " << count;
      }
    }
    return all;
  }
};

TEST_F(RowReaders, PlainRowsAreThoseOfTheFile) {
  const auto reader = Matrix(2, 3, 10);
  EXPECT_EQ(reader->rows(), 2u);
  EXPECT_EQ(reader->row_values(), 3u);
  EXPECT_THAT(Values(*reader), ElementsAre(10, 11, 12, 13, 14, 15));
}

TEST_F(RowReaders, StacksMatricesOfTheSameSize) {
  const auto reader = StackedRows({Matrix(2, 2, 10), Matrix(2, 2, 0), Matrix(2, 2, 20)});
  EXPECT_EQ(reader->rows(), 6u);
  EXPECT_THAT(Values(*reader), ElementsAre(10, 11, 12, 13, 0, 1, 2, 3, 20, 21, 22, 23));
}

TEST_F(RowReaders, SelectsRowsInAnyOrder) {
  EXPECT_THAT(Values(*SelectedRows(Matrix(4, 2), {3, 0, 1, 3}, 4)),
              ElementsAre(6, 7, 0, 1, 2, 3, 6, 7));
}

TEST_F(RowReaders, SelectsTheSameRowsOfEveryMatrix) {
  const auto reader = SelectedRows(Matrix(8, 1), {2, 0, 1}, 4);
  EXPECT_EQ(reader->rows(), 6u);
  EXPECT_THAT(Values(*reader), ElementsAre(2, 0, 1, 6, 4, 5));
}

TEST_F(RowReaders, ReadsEveryOtherRowInOnePiece) {
  const auto reader = SelectedRows(Matrix(8, 2), {1, 3, 5, 7}, 8);
  EXPECT_THAT(Values(*reader), ElementsAre(2, 3, 6, 7, 10, 11, 14, 15));
  std::vector<SourceRange> ranges;
  reader->AddReads(1, 2, ranges);
  EXPECT_THAT(ranges, ElementsAre(SourceRange{0, 24, 24, 0})) << "rows 3 to 5";
}

TEST_F(RowReaders, TransposesAWindow) {
  // Rows 1 and 2, columns 1 to 3 of a 4 x 4 matrix.
  const Window window{1, 2, 1, 3};
  const std::vector<float> expected = {5, 9, 6, 10, 7, 11};
  EXPECT_EQ(Values(*TransposedRows(Matrix(4, 4), window)), expected);
  const PlainMatrix matrix{quant::FindFormat("f32"), 0, 0, 4};
  EXPECT_EQ(Values(*TransposedPlain(matrix, window)), expected);
}

TEST_F(RowReaders, TransposesRowsThatAreMadeOfSeveralRanges) {
  const auto base = SelectedRows(Matrix(4, 3), {3, 0, 2}, 4);
  EXPECT_THAT(Values(*TransposedRows(base, {0, 3, 0, 3})),
              ElementsAre(9, 0, 6, 10, 1, 7, 11, 2, 8));
}

// Plain rows that can be read column by column.
class Banded : public RowReader {
 public:
  explicit Banded(uint64_t first = 0, uint64_t count = 4) : RowReader(4, count), first_(first) {}
  void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const override {
    for (uint64_t i = first; i < first + count; ++i) {
      reads.push_back({0, (i * 4 + first_) * sizeof(float), row_values() * sizeof(float)});
    }
  }
  Status Decode(const RowBytes& rows, std::span<float> out) const override {
    std::memcpy(out.data(), rows.bytes.data(), rows.bytes.size());
    return Ok();
  }
  RowReaderPtr Band(uint64_t first, uint64_t count) const override {
    return std::make_shared<Banded>(first_ + first, count);
  }
  RowRoom Room() const override { return {0, row_values() * sizeof(float) + kRangeRoom}; }
  std::string Describe() const override { return "banded"; }

 private:
  uint64_t first_;
};

TEST_F(RowReaders, TransposesWithoutReadingWholeRowsWhereTheBaseCan) {
  const auto reader = TransposedRows(std::make_shared<Banded>(), {1, 2, 1, 3});
  EXPECT_THAT(Values(*reader), ElementsAre(5, 9, 6, 10, 7, 11));
  EXPECT_EQ(ReadBytes(*reader, 1, 1), 2 * sizeof(float));
  EXPECT_EQ(ReadBytes(*TransposedRows(Matrix(4, 4), {1, 2, 1, 3}), 1, 1), 8 * sizeof(float));
}

// A reader never reports less room than it uses, for any part of its rows.
TEST_F(RowReaders, ReportsEnoughRoomForEveryRead) {
  const auto matrix = Matrix(8, 4);
  const RowReaderPtr readers[] = {
      matrix,
      StackedRows({Matrix(3, 4), Matrix(3, 4, 12), Matrix(3, 4, 24)}),
      SelectedRows(matrix, {1, 3, 5, 7}, 8),
      SelectedRows(matrix, {7, 0, 3, 2}, 8),
      SelectedRows(matrix, {0, 1}, 4),
      SelectedColumns(matrix, {3, 0}),
      TransposedRows(matrix, {0, 8, 0, 4}),
      TransposedRows(std::make_shared<Banded>(), {0, 4, 0, 4}),
      TransposedPlain({quant::FindFormat("f32"), 0, 0, 4}, {0, 8, 0, 4}),
      SelectedRows(TransposedRows(matrix, {0, 8, 0, 4}), {0, 2}, 4),
      ChangedValues(matrix, ValueChange::kPlusOne)};
  for (const RowReaderPtr& reader : readers) {
    const RowRoom room = reader->Room();
    for (uint64_t first = 0; first < reader->rows(); ++first) {
      for (uint64_t count = 1; first + count <= reader->rows(); ++count) {
        EXPECT_GE(room.fixed + count * room.per_row, ReadBytes(*reader, first, count))
            << reader->Describe() << " " << first << " " << count;
      }
    }
  }
}

TEST_F(RowReaders, ReadsOnlyTheColumnsOfALargeMatrix) {
  const PlainMatrix matrix{quant::FindFormat("f32"), 7, 100, 1000};
  const auto reader = TransposedPlain(matrix, {10, 2, 50, 900});
  std::vector<SourceRange> ranges;
  reader->AddReads(3, 4, ranges);
  EXPECT_THAT(ranges, ElementsAre(SourceRange{7, 100 + 4 * 10053, 16, 0},
                                  SourceRange{7, 100 + 4 * 11053, 16, 0}));
}

TEST_F(RowReaders, SelectsColumns) {
  EXPECT_THAT(Values(*SelectedColumns(Matrix(2, 4), {3, 0, 1})), ElementsAre(3, 0, 1, 7, 4, 5));
}

TEST_F(RowReaders, ChangesValues) {
  EXPECT_THAT(Values(*ChangedValues(Matrix(1, 3), ValueChange::kPlusOne)), ElementsAre(1, 2, 3));
  EXPECT_THAT(Values(*ChangedValues(Matrix(1, 2), ValueChange::kMinusExp)),
              ElementsAre(-1, static_cast<float>(-std::exp(1.0))));
  EXPECT_THAT(Values(*ChangedValues(Matrix(1, 2), ValueChange::kExp)),
              ElementsAre(1, static_cast<float>(std::exp(1.0))));
}

TEST_F(RowReaders, MultipliesTwoReaders) {
  const auto product =
      MultipliedRows(Matrix(2, 3), ChangedValues(Matrix(2, 3), ValueChange::kPlusOne));
  EXPECT_THAT(Values(*product), ElementsAre(0, 2, 6, 12, 20, 30));
}

TEST_F(RowReaders, DescribesEverythingThatAffectsTheRows) {
  const auto base = Matrix(4, 2);
  EXPECT_NE(Matrix(4, 2, 1)->Describe(), base->Describe());
  EXPECT_NE(SelectedRows(base, {0, 1}, 4)->Describe(), SelectedRows(base, {1, 0}, 4)->Describe());
  EXPECT_NE(SelectedRows(base, {0, 1}, 4)->Describe(), SelectedRows(base, {0, 1}, 2)->Describe());
  EXPECT_NE(SelectedColumns(base, {0})->Describe(), SelectedColumns(base, {1})->Describe());
  EXPECT_NE(TransposedRows(base, {0, 4, 0, 2})->Describe(),
            TransposedRows(base, {0, 4, 0, 1})->Describe());
  EXPECT_NE(ChangedValues(base, ValueChange::kPlusOne)->Describe(),
            ChangedValues(base, ValueChange::kMinusExp)->Describe());
  EXPECT_NE(ChangedValues(base, ValueChange::kExp)->Describe(),
            ChangedValues(base, ValueChange::kMinusExp)->Describe());
  EXPECT_NE(MultipliedRows(base, Matrix(4, 2, 1))->Describe(),
            MultipliedRows(base, base)->Describe());
  EXPECT_NE(StackedRows({base, base})->Describe(), StackedRows({base})->Describe());
}

// Blocks of one value that is written as its own first byte.
class Repacking : public RowReader {
 public:
  Repacking() : RowReader(4, 32) {}
  void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const override {
    reads.push_back({0, first * 4, count * 4});
  }
  Status Decode(const RowBytes&, std::span<float>) const override { return Ok(); }
  bool CanRepack(const quant::Format* to) const override { return to->name == "mxfp4"; }
  Status Repack(const quant::Format*, const RowBytes& rows, std::span<std::byte> out,
                GridReport& report) const override {
    for (uint64_t i = 0; i < rows.count; ++i) out[i * 17] = static_cast<std::byte>(rows.first + i);
    report.Add({rows.count * 32, rows.count, rows.count, 0});
    return Ok();
  }
  RowRoom Room() const override { return {0, 4}; }
  std::string Describe() const override { return "repacking"; }
};

TEST_F(RowReaders, RepackThroughStacksAndSelections) {
  const quant::Format* mxfp4 = quant::FindFormat("mxfp4");
  const auto one = std::make_shared<Repacking>();
  const auto reader = StackedRows({SelectedRows(one, {1, 3}, 4), SelectedRows(one, {2, 0}, 4)});
  ASSERT_TRUE(reader->CanRepack(mxfp4));
  EXPECT_FALSE(reader->CanRepack(quant::FindFormat("q4_0")));
  EXPECT_FALSE(StackedRows({Matrix(4, 32)})->CanRepack(mxfp4));
  EXPECT_FALSE(SelectedColumns(one, {0})->CanRepack(mxfp4)) << "the columns would split blocks";
  std::vector<std::byte> out(4 * 17);
  GridReport report;
  ASSERT_TRUE(reader->Repack(mxfp4, {0, 4, Bytes(*reader, 0, 4)}, out, report));
  EXPECT_EQ(report.weights, 4u * 32) << "rows that are skipped do not count";
  EXPECT_EQ(report.exact, 4u);
  std::vector<int> first;
  for (size_t i = 0; i < 4; ++i) first.push_back(std::to_integer<int>(out[i * 17]));
  EXPECT_THAT(first, ElementsAre(1, 3, 2, 0));
}

TEST(RowRange, APartKeepsTheOrder) {
  EXPECT_EQ((RowRange{5, 7, 9}.Part(2, 3)), (RowRange{7, 3, 9}));
  EXPECT_EQ((SourceRange{1, 5, 7, 9}.Part(2, 3)), (SourceRange{1, 7, 3, 9}));
}

}  // namespace
}  // namespace moepack
