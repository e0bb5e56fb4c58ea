#include "libshard/pack_units.h"

#include <gtest/gtest.h>

#include <map>

namespace shard {
namespace {

OutputFile File(std::vector<std::vector<SourceRange>> tensors) {
  OutputFile file;
  for (std::vector<SourceRange>& ranges : tensors) {
    OutputTensor tensor;
    for (const SourceRange& range : ranges) tensor.entry.bytes += range.bytes;
    tensor.sources = std::move(ranges);
    file.tensors.push_back(std::move(tensor));
  }
  return file;
}

// Runs the schedule one unit at a time and returns, per output, the source offsets of its bytes.
std::vector<std::vector<uint64_t>> Drain(PackSchedule& schedule, size_t outputs, uint64_t& read) {
  std::vector<std::vector<uint64_t>> seen(outputs);
  while (const PackUnit* unit = schedule.Start()) {
    read += unit->bytes;
    for (const uint32_t target : unit->targets) {
      for (uint64_t i = 0; i < unit->bytes; ++i) seen[target].push_back(unit->offset + i);
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
    PackSchedule schedule(outputs, {0, 0, 0}, chunk);
    uint64_t read = 0;
    const auto seen = Drain(schedule, outputs.size(), read);
    EXPECT_TRUE(schedule.finished());
    for (size_t i = 0; i < outputs.size(); ++i) EXPECT_EQ(seen[i], Bytes(outputs[i])) << chunk;
    EXPECT_EQ(read, 7u + 40u + 5u) << chunk;
  }
}

TEST(PackSchedule, ReadsContiguousSmallTensorsTogether) {
  const std::vector<OutputFile> outputs = {
      File({{{0, 0, 4}}, {{0, 4, 4}}, {{0, 8, 4}}, {{1, 12, 4}}})};
  PackSchedule schedule(outputs, {0}, 100);
  const PackUnit* first = schedule.Start();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->bytes, 12u);
  EXPECT_EQ(schedule.Start(), nullptr) << "one worker at a time per output";
  schedule.Done(*first);
  EXPECT_EQ(schedule.Start()->file, 1u);
}

TEST(PackSchedule, StartsAtTheFirstUnfinishedTensor) {
  const std::vector<OutputFile> outputs = {File({{{0, 0, 4}}, {{0, 50, 4}}})};
  PackSchedule schedule(outputs, {1}, 100);
  uint64_t read = 0;
  EXPECT_EQ(Drain(schedule, 1, read)[0], (std::vector<uint64_t>{50, 51, 52, 53}));
}

TEST(PackSchedule, OutputsInAnotherOrderDoNotWaitInACircle) {
  const std::vector<OutputFile> outputs = {File({{{0, 0, 4}, {0, 10, 4}}}),
                                           File({{{0, 10, 4}, {0, 0, 4}}})};
  PackSchedule schedule(outputs, {0, 0}, 100);
  uint64_t read = 0;
  const auto seen = Drain(schedule, 2, read);
  EXPECT_TRUE(schedule.finished());
  EXPECT_EQ(seen[0], Bytes(outputs[0]));
  EXPECT_EQ(seen[1], Bytes(outputs[1]));
}

TEST(PackSchedule, PrefersTheOutputThatIsFurthestBehind) {
  const std::vector<OutputFile> outputs = {File({{{0, 0, 10}}, {{0, 100, 10}}}),
                                           File({{{0, 50, 10}}})};
  PackSchedule schedule(outputs, {0, 0}, 10);
  const PackUnit* first = schedule.Start();
  EXPECT_EQ(first->targets, (std::vector<uint32_t>{0}));
  schedule.Done(*first);
  EXPECT_EQ(schedule.Start()->targets, (std::vector<uint32_t>{1}));
}

TEST(PackSchedule, HasNothingToDoForEmptyOutputs) {
  PackSchedule schedule({OutputFile{}, File({{}})}, {0, 0}, 10);
  EXPECT_TRUE(schedule.finished());
  EXPECT_EQ(schedule.Start(), nullptr);
}

}  // namespace
}  // namespace shard
