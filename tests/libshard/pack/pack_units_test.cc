#include "libshard/pack/pack_units.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "libshard/convert/row_reader.h"

namespace moepack {
namespace {

// Tensors without gaps, or each followed by `padding` bytes.
OutputFile File(std::vector<std::vector<SourceRange>> tensors, uint64_t padding = 0) {
  OutputFile file;
  for (std::vector<SourceRange>& ranges : tensors) {
    OutputTensor tensor;
    tensor.entry.offset = file.size;
    for (const SourceRange& range : ranges) tensor.entry.bytes += range.bytes;
    file.size += tensor.entry.bytes + padding;
    tensor.sources = std::move(ranges);
    file.tensors.push_back(std::move(tensor));
  }
  return file;
}

// One tensor of rows made by a reader.
OutputFile FileOfRows(std::vector<RowRange> rows) {
  OutputFile file = File({{}});
  file.tensors[0].rows = std::move(rows);
  return file;
}

// Runs the schedule one unit at a time and returns, per output, the source offsets of its bytes.
std::vector<std::vector<uint64_t>> Drain(PackSchedule& schedule, size_t outputs, uint64_t& read) {
  std::vector<std::vector<uint64_t>> seen(outputs);
  while (const PackUnit* unit = schedule.Start()) {
    read += unit->bytes;
    for (const uint32_t target : unit->targets) {
      for (const SourceRange& range : unit->reads) {
        for (uint64_t i = 0; i < range.bytes; ++i) seen[target].push_back(range.offset + i);
      }
    }
    schedule.Done(*unit);
  }
  return seen;
}

std::vector<uint64_t> Bytes(const OutputFile& file) {
  std::vector<uint64_t> out;
  for (const OutputTensor& tensor : file.tensors) {
    for (const SourceRange& range : tensor.sources) {
      for (uint64_t i = 0; i < range.bytes; ++i) out.push_back(range.offset + i);
    }
  }
  return out;
}

TEST(PackSchedule, GivesEveryOutputItsBytesInOrderAndReadsSharedOnesOnce) {
  // Expert slices 0-3 of a packed tensor at 100, ten bytes each; the second output replicates
  // slices 1 and 3.
  const std::vector<OutputFile> outputs = {
      File({{{0, 0, 7}}, {{0, 100, 10}, {0, 110, 10}}, {{0, 200, 5}}}),
      File({{{0, 110, 10}, {0, 130, 10}}}),
      File({{{0, 120, 10}, {0, 130, 10}}}),
  };
  for (const uint64_t chunk : {1u, 3u, 10u, 1000u}) {
    PackSchedule schedule(outputs, {0, 0, 0}, {chunk, chunk});
    uint64_t read = 0;
    const auto seen = Drain(schedule, outputs.size(), read);
    EXPECT_TRUE(schedule.finished());
    for (size_t i = 0; i < outputs.size(); ++i) EXPECT_EQ(seen[i], Bytes(outputs[i])) << chunk;
    EXPECT_EQ(read, 7u + 40u + 5u) << chunk;
  }
}

TEST(PackSchedule, SplitsTheRowsOfAReaderByTheMemoryTheyTake) {
  // 32 values each: 128 bytes read, 128 as F32, 34 as q8_0 and a little for the list of reads.
  OutputFile file = FileOfRows({{0, 10, 0}, {20, 10, 1}});
  file.tensors[0].encoding = std::make_shared<const Encoding>(
      Encoding{.from = quant::FindFormat("bf16"),
               .to = quant::FindFormat("q8_0"),
               .row_values = 32,
               .rows_per_slice = 0,
               .importance = nullptr,
               .reader = PlainRows(quant::FindFormat("f32"), 0, 0, 30, 32),
               .repack = false});
  const std::vector<OutputFile> outputs = {file};
  PackSchedule schedule(outputs, {0}, {640, 640});
  std::vector<uint64_t> counts;
  while (const PackUnit* unit = schedule.Start()) {
    EXPECT_TRUE(unit->reads.empty()) << "the reader chooses what to read itself";
    counts.push_back(unit->rows.count);
    schedule.Done(*unit);
  }
  EXPECT_EQ(counts, (std::vector<uint64_t>{4, 4, 2, 4, 4, 2}));
}

// The buffers of a worker for a unit of a reader's rows.
uint64_t BuffersOf(const PackUnit& unit) {
  const Encoding& encoding = *unit.tensor->encoding;
  const uint64_t rows = unit.rows.count;
  return ReadBytes(*encoding.reader, unit.rows.first, rows) +
         rows * (encoding.row_values * sizeof(float) + *encoding.to->BytesFor(encoding.row_values));
}

TEST(PackSchedule, NoUnitOfAReaderExceedsItsShareOfTheMemory) {
  const quant::Format* bf16 = quant::FindFormat("bf16");
  const quant::Format* f32 = quant::FindFormat("f32");
  const RowReaderPtr matrix = PlainRows(bf16, 0, 0, 4096, 512);
  std::vector<uint64_t> even;
  for (uint64_t i = 0; i < 4096; i += 2) even.push_back(i);
  const RowReaderPtr readers[] = {
      matrix, SelectedRows(matrix, even, 4096), PlainRows(f32, 0, 0, 4096, 512),
      TransposedPlain({bf16, 0, 0, 4096}, {0, 512, 0, 4096}),
      StackedRows({PlainRows(bf16, 0, 0, 7, 512), PlainRows(bf16, 0, 0, 7, 512)})};
  constexpr uint64_t kChunk = 64u << 10;
  for (const RowReaderPtr& reader : readers) {
    OutputFile file = FileOfRows({{0, reader->rows(), 0}});
    file.tensors[0].encoding =
        std::make_shared<const Encoding>(Encoding{.from = bf16,
                                                  .to = quant::FindFormat("q8_0"),
                                                  .row_values = 512,
                                                  .rows_per_slice = 0,
                                                  .importance = nullptr,
                                                  .reader = reader,
                                                  .repack = false});
    const std::vector<OutputFile> outputs = {file};
    PackSchedule schedule(outputs, {0}, {kChunk, kChunk});
    uint64_t most = 0, rows = 0;
    while (const PackUnit* unit = schedule.Start()) {
      most = std::max(most, BuffersOf(*unit));
      rows += unit->rows.count;
      schedule.Done(*unit);
    }
    EXPECT_EQ(rows, reader->rows());
    EXPECT_LE(most, 2 * kChunk) << reader->Describe();
    if (rows > 100) {
      EXPECT_GT(most, kChunk / 2) << "the limit is hardly used: " << reader->Describe();
    }
  }
}

TEST(PackSchedule, ReadsContiguousSmallTensorsTogether) {
  const std::vector<OutputFile> outputs = {
      File({{{0, 0, 4}}, {{0, 4, 4}}, {{0, 8, 4}}, {{1, 12, 4}}})};
  PackSchedule schedule(outputs, {0}, {100, 100});
  const PackUnit* first = schedule.Start();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->bytes, 12u);
  ASSERT_EQ(first->reads.size(), 1u) << "expected a single read";
  EXPECT_EQ(schedule.Start()->reads[0].file, 1u);
}

TEST(PackSchedule, ReadsTensorsWithPaddingBetweenThemOneByOne) {
  const std::vector<OutputFile> outputs = {File({{{0, 0, 4}}, {{0, 4, 4}}}, 28)};
  PackSchedule schedule(outputs, {0}, {100, 100});
  EXPECT_EQ(schedule.Start()->bytes, 4u);
  EXPECT_EQ(schedule.Start()->bytes, 4u);
  EXPECT_EQ(schedule.Start(), nullptr);
}

TEST(PackSchedule, WritesTheUnitsOfAnOutputInOrder) {
  const std::vector<OutputFile> outputs = {File({{{0, 0, 20}}})};
  PackSchedule schedule(outputs, {0}, {10, 10});
  const PackUnit* first = schedule.Start();
  const PackUnit* second = schedule.Start();
  ASSERT_NE(second, nullptr) << "two units may run at the same time";
  EXPECT_TRUE(schedule.IsTurn(*first));
  EXPECT_FALSE(schedule.IsTurn(*second));
  schedule.Done(*first);
  EXPECT_TRUE(schedule.IsTurn(*second));
  schedule.Done(*second);
  EXPECT_TRUE(schedule.finished());
}

// A tensor of BF16 rows of four values that becomes F32.
OutputTensor Encoded(std::vector<SourceRange> ranges, ExpertIds ids = {}) {
  OutputTensor tensor;
  tensor.encoding =
      std::make_shared<const Encoding>(Encoding{.from = quant::FindFormat("bf16"),
                                                .to = quant::FindFormat("f32"),
                                                .row_values = 4,
                                                .rows_per_slice = ids.empty() ? 0u : 2u,
                                                .importance = nullptr,
                                                .reader = nullptr,
                                                .repack = false});
  tensor.sources = std::move(ranges);
  tensor.expert_ids = std::move(ids);
  return tensor;
}

TEST(PackSchedule, SplitsEncodedTensorsAtRowsAndGathersScatteredRows) {
  OutputFile file;
  file.tensors = {Encoded({{0, 0, 40}}), Encoded({{0, 48, 8}, {0, 40, 8}, {0, 56, 8}})};
  // A row is 8 bytes as BF16 and 16 as F32: two rows fit into 39 bytes.
  const std::vector<OutputFile> outputs = {file};
  PackSchedule schedule(outputs, {0}, {39, 39});
  std::vector<std::pair<uint64_t, uint64_t>> rows;  // first row, bytes read
  std::vector<size_t> reads;
  while (const PackUnit* unit = schedule.Start()) {
    rows.emplace_back(unit->first_row, unit->bytes);
    reads.push_back(unit->reads.size());
  }
  EXPECT_EQ(rows, (std::vector<std::pair<uint64_t, uint64_t>>{
                      {0, 16}, {2, 16}, {4, 8}, {0, 16}, {2, 8}}));
  EXPECT_EQ(reads, (std::vector<size_t>{1, 1, 1, 2, 1}));
}

TEST(PackSchedule, EncodesExpertsInTwoOutputsOnce) {
  // Experts 1, 2 and 3 are at 300, 200 and 100: not in the order of their ids.
  const auto at = [](uint32_t id) { return SourceRange{0, 400 - 100 * id, 16, id}; };
  OutputFile group, overlay;
  group.tensors = {Encoded({at(1), at(3)}, {1, 3})};
  overlay.tensors = {Encoded({at(1), at(2), at(3)}, {1, 2, 3})};
  const std::vector<OutputFile> outputs = {group, overlay};
  PackSchedule schedule(outputs, {0, 0}, {1000, 1000});
  uint64_t read = 0;
  const auto seen = Drain(schedule, 2, read);
  EXPECT_EQ(read, 48u);
  EXPECT_EQ(seen[0], Bytes(group));
  EXPECT_EQ(seen[1], Bytes(overlay));
}

TEST(PackSchedule, ALiteralTensorIsAUnitWithoutReads) {
  OutputFile file;
  file.tensors.resize(1);
  file.tensors[0].literal = std::make_shared<const std::string>("abcd");
  const std::vector<OutputFile> outputs = {file};
  PackSchedule schedule(outputs, {0}, {100, 100});
  const PackUnit* unit = schedule.Start();
  ASSERT_NE(unit, nullptr);
  EXPECT_TRUE(unit->reads.empty());
  EXPECT_EQ(*unit->tensor->literal, "abcd");
}

TEST(PackSchedule, StartsAtTheFirstUnfinishedTensor) {
  const std::vector<OutputFile> outputs = {File({{{0, 0, 4}}, {{0, 50, 4}}})};
  PackSchedule schedule(outputs, {1}, {100, 100});
  uint64_t read = 0;
  EXPECT_EQ(Drain(schedule, 1, read)[0], (std::vector<uint64_t>{50, 51, 52, 53}));
}

TEST(PackSchedule, OutputsWithOppositeReadOrdersDoNotDeadlock) {
  const std::vector<OutputFile> outputs = {File({{{0, 0, 4}, {0, 10, 4}}}),
                                           File({{{0, 10, 4}, {0, 0, 4}}})};
  PackSchedule schedule(outputs, {0, 0}, {100, 100});
  uint64_t read = 0;
  const auto seen = Drain(schedule, 2, read);
  EXPECT_TRUE(schedule.finished());
  EXPECT_EQ(seen[0], Bytes(outputs[0]));
  EXPECT_EQ(seen[1], Bytes(outputs[1]));
}

TEST(PackSchedule, PrefersTheOutputThatIsFurthestBehind) {
  const std::vector<OutputFile> outputs = {File({{{0, 0, 10}}, {{0, 100, 10}}}),
                                           File({{{0, 50, 10}}})};
  PackSchedule schedule(outputs, {0, 0}, {10, 10});
  const PackUnit* first = schedule.Start();
  EXPECT_EQ(first->targets, (std::vector<uint32_t>{0}));
  schedule.Done(*first);
  EXPECT_EQ(schedule.Start()->targets, (std::vector<uint32_t>{1}));
}

TEST(PackSchedule, HasNothingToDoForEmptyOutputs) {
  PackSchedule schedule({OutputFile{}, File({{}})}, {0, 0}, {10, 10});
  EXPECT_TRUE(schedule.finished());
  EXPECT_EQ(schedule.Start(), nullptr);
}

}  // namespace
}  // namespace moepack
