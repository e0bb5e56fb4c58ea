#include "libshard/tasks/divide.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace moepack {
namespace {

using testing::IsEmpty;

// `tensors` tensors of `bytes` bytes each, contiguous in source file 0 from `first`.
OutputFile Copies(uint32_t tensors, uint64_t bytes, uint64_t first = 0) {
  OutputFile file;
  for (uint32_t i = 0; i < tensors; ++i) {
    OutputTensor tensor;
    tensor.entry.offset = file.size;
    tensor.entry.bytes = bytes;
    tensor.sources = {{0, first + i * bytes, bytes}};
    file.tensors.push_back(std::move(tensor));
    file.size += bytes;
  }
  return file;
}

uint64_t BytesOf(const std::vector<Fragment>& fragments) {
  uint64_t bytes = 0;
  for (const Fragment& fragment : fragments) bytes += fragment.bytes;
  return bytes;
}

TEST(WorkDivision, GivesEveryByteToOneTask) {
  const std::vector<OutputFile> files = {Copies(7, 300'001), Copies(3, 1'000'000, 1u << 30)};
  for (const uint32_t tasks : {1u, 2u, 3u, 8u, 100u}) {
    const WorkDivision division(files, tasks);
    std::vector<std::pair<uint64_t, uint64_t>> runs;  // file and place, end
    for (uint32_t i = 0; i < tasks; ++i) {
      const std::vector<Fragment> fragments = division.Of(i);
      EXPECT_EQ(BytesOf(fragments), division.loads()[i].written);
      for (const Fragment& f : fragments) {
        const uint64_t at =
            (uint64_t{f.output} << 40) + files[f.output].tensors[f.tensor].entry.offset + f.offset;
        runs.emplace_back(at, at + f.bytes);
      }
    }
    std::sort(runs.begin(), runs.end());
    EXPECT_EQ(runs.front().first, 0u);
    EXPECT_EQ(runs.back().second, (uint64_t{1} << 40) + 3'000'000);
    for (size_t i = 1; i < runs.size(); ++i) {
      const bool next_file = runs[i].first == uint64_t{1} << 40;
      EXPECT_TRUE(next_file || runs[i].first == runs[i - 1].second) << tasks;
    }
  }
}

TEST(WorkDivision, GivesEqualSharesOfOneLargeTensor) {
  const WorkDivision division({Copies(1, 1u << 30)}, 16);
  uint64_t written = 0;
  for (const TaskLoad& load : division.loads()) {
    EXPECT_EQ(load.read, load.written);
    written += load.written;
  }
  EXPECT_EQ(division.loads().size(), 16u);
  EXPECT_EQ(written, 1u << 30);
  EXPECT_LT(Imbalance(division.loads(), &TaskLoad::written), 1.03);
}

TEST(WorkDivision, LeavesTasksWithoutWorkWhereThereIsNotEnough) {
  const WorkDivision division({Copies(2, 1000)}, 8);
  size_t busy = 0;
  for (uint32_t i = 0; i < 8; ++i) busy += division.Of(i).empty() ? 0 : 1;
  EXPECT_EQ(busy, 2u);
  const WorkDivision nothing({OutputFile{}}, 3);
  EXPECT_THAT(nothing.Of(0), IsEmpty());
  EXPECT_EQ(Imbalance(nothing.loads(), &TaskLoad::work), 1);
}

TEST(WorkDivision, GivesSharedBytesToOneTaskThatReadsThemOnce) {
  const std::vector<OutputFile> files = {Copies(8, 100'000), Copies(8, 100'000)};
  const WorkDivision division(files, 4);
  uint64_t read = 0, written = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    read += division.loads()[i].read;
    written += division.loads()[i].written;
    const std::vector<Fragment> fragments = division.Of(i);
    std::vector<std::pair<uint32_t, uint64_t>> first, second;
    for (const Fragment& f : fragments)
      (f.output == 0 ? first : second).emplace_back(f.tensor, f.offset);
    EXPECT_EQ(first, second);
  }
  EXPECT_EQ(read, 800'000u);
  EXPECT_EQ(written, 1'600'000u);
}

TEST(WorkDivision, WeighsTheCostOfEncoding) {
  OutputFile copied = Copies(1, 64u << 20), encoded = Copies(1, 64u << 20, 1u << 30);
  Encoding encoding;
  encoding.from = quant::FindFormat("bf16");
  encoding.to = quant::FindFormat("q4_K");
  encoding.row_values = 256;
  encoded.tensors[0].encoding = std::make_shared<const Encoding>(std::move(encoding));
  encoded.tensors[0].entry.bytes = (64u << 20) / 512 * 144;
  const WorkDivision division({copied, encoded}, 2);
  EXPECT_GT(division.loads()[0].read, division.loads()[1].read);
  EXPECT_LT(Imbalance(division.loads(), &TaskLoad::work), 1.03);
}

}  // namespace
}  // namespace moepack
