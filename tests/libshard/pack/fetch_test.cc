#include "libshard/pack/fetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/pack/pack.h"
#include "libshard/pack/pack_units.h"
#include "tests/libshard/pack/far_source.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(IsCheapGap, IsAtMostAMebibyteAndAHundredthOfTheWantedBytes) {
  constexpr uint64_t kMebibyte = 1u << 20;
  EXPECT_TRUE(IsCheapGap(10, 0, 1280));
  EXPECT_FALSE(IsCheapGap(11, 0, 1280));
  EXPECT_FALSE(IsCheapGap(6, 5, 1280));
  EXPECT_TRUE(IsCheapGap(kMebibyte, 0, kMebibyte * 1000));
  EXPECT_FALSE(IsCheapGap(kMebibyte + 1, 0, kMebibyte * 1000));
}

TEST(PlanFetches, RangesWithCheapGapsShareARequest) {
  const std::vector<SourceRange> ranges = {
      {0, 1000, 1000}, {0, 2000, 1000}, {0, 3010, 1000}, {0, 9000, 500}, {1, 9500, 500}};
  const std::vector<Fetch> fetches = PlanFetches(ranges);
  ASSERT_EQ(fetches.size(), 3u);
  EXPECT_EQ(fetches[0].offset, 1000u);
  EXPECT_EQ(fetches[0].bytes, 3010u);
  EXPECT_EQ(fetches[0].count, 3u);
  EXPECT_EQ(fetches[1].offset, 9000u);
  EXPECT_EQ(fetches[2].file, 1u);
}

TEST(PlanFetches, AllGapsTogetherStayBelowAHundredth) {
  std::vector<SourceRange> ranges;
  for (uint64_t i = 0; i < 100; ++i) ranges.push_back({0, i * 110, 100});
  uint64_t wanted = 0, fetched = 0;
  for (const SourceRange& range : ranges) wanted += range.bytes;
  for (const Fetch& fetch : PlanFetches(ranges)) fetched += fetch.bytes;
  EXPECT_GT(fetched, wanted);
  EXPECT_LE(fetched, wanted + wanted / 100);
}

TEST(PlanFetches, RangesThatGoBackwardAreSeparateRequests) {
  EXPECT_EQ(PlanFetches(std::vector<SourceRange>{{0, 500, 100}, {0, 400, 100}}).size(), 2u);
  EXPECT_THAT(PlanFetches({}), IsEmpty());
  EXPECT_THAT(PlanFetches(std::vector<SourceRange>{{0, 500, 0}}), IsEmpty());
}

std::string Alphabet(size_t bytes) {
  std::string text(bytes, ' ');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>('a' + i * 7 % 26);
  return text;
}

std::string TextOf(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(ReadRanges, ReturnsTheRangesWithoutTheGaps) {
  const std::string text = Alphabet(20'000);
  const auto far = std::make_shared<const FarSource>("far", text);
  const std::vector<ByteSourcePtr> sources = {far,
                                              std::make_shared<const MemorySource>("near", text)};
  for (const uint32_t file : {0u, 1u}) {
    const std::vector<SourceRange> ranges = {
        {file, 100, 5000}, {file, 5120, 3000}, {file, 5120, 0}, {file, 8120, 10}, {file, 50, 7}};
    std::vector<std::byte> out(3);
    ASSERT_TRUE(ReadRanges(sources, ranges, out));
    EXPECT_EQ(TextOf(out), text.substr(100, 5000) + text.substr(5120, 3010) + text.substr(50, 7));
  }
  EXPECT_THAT(far->TakeReads(), ElementsAre(Pair(100, 8030), Pair(50, 7)));
}

TEST(ReadRanges, TheErrorOfASourceIsReturned) {
  const std::vector<ByteSourcePtr> sources = {std::make_shared<const FarSource>("far", "abc")};
  std::vector<std::byte> out;
  const Status read = ReadRanges(sources, std::vector<SourceRange>{{0, 2, 5}}, out);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kCorrupt);
}

// An output that copies these ranges, one tensor per range.
OutputFile Copies(const std::vector<SourceRange>& ranges) {
  OutputFile file;
  for (const SourceRange& range : ranges) {
    OutputTensor tensor;
    tensor.entry.offset = file.size;
    tensor.entry.bytes = range.bytes;
    tensor.sources = {range};
    file.size += range.bytes;
    file.tensors.push_back(std::move(tensor));
  }
  return file;
}

TEST(PackScheduleOfFarSources, TensorsWithACheapGapShareAUnit) {
  const std::vector<OutputFile> outputs = {
      Copies({{0, 0, 50'000}, {0, 50'100, 50'000}, {0, 300'000, 50'000}})};
  EXPECT_EQ(PackSchedule(outputs, {0}, {1u << 20, 1u << 20}).units().size(), 3u);
  const PackSchedule far(outputs, {0}, {1u << 20, 1u << 20, true});
  ASSERT_EQ(far.units().size(), 2u);
  EXPECT_EQ(far.units()[0].bytes, 100'000u);
  EXPECT_THAT(far.units()[0].reads,
              ElementsAre(SourceRange{0, 0, 50'000}, SourceRange{0, 50'100, 50'000}));
}

TEST(EstimateFetch, CountsOnlyRemoteSources) {
  std::vector<SourceFile> sources(2);
  sources[0].far = true;
  const std::vector<OutputFile> outputs = {
      Copies({{0, 0, 50'000}, {0, 50'100, 60'000}, {0, 300'000, 50'000}, {1, 0, 70'000}})};
  const FetchEstimate estimate = EstimateFetch(sources, outputs, {});
  EXPECT_EQ(estimate.requests, 2u);
  EXPECT_EQ(estimate.bytes, 160'100u);
  EXPECT_EQ(estimate.sample.offset, 0u);
  EXPECT_EQ(estimate.sample.bytes, 110'100u);
  sources[0].far = false;
  EXPECT_EQ(EstimateFetch(sources, outputs, {}).requests, 0u);
}

}  // namespace
}  // namespace moepack
