#include "tools/commands/planning/replay_sizes.h"

#include <gmock/gmock.h>

namespace moepack::cli {
namespace {

using ::testing::ElementsAre;

std::vector<uint32_t> SlotsFor(uint32_t experts, const ReplaySizeArguments& arguments = {}) {
  const auto sizes = ReplaySizesFor(arguments, {{0, 1, 1}, {1, experts, 1}}, nullptr);
  std::vector<uint32_t> slots;
  if (!sizes) return slots;
  for (const ReplaySize& size : *sizes) {
    slots.push_back(size.slots);
    EXPECT_EQ(size.bytes, std::nullopt);
  }
  return slots;
}

TEST(ReplaySizes, UsuallyAreAnEighthAQuarterAHalfAndThreeQuartersRoundedUp) {
  EXPECT_THAT(SlotsFor(128), ElementsAre(16, 32, 64, 96));
  EXPECT_THAT(SlotsFor(12), ElementsAre(2, 3, 6, 9));
  EXPECT_THAT(SlotsFor(10), ElementsAre(2, 3, 5, 8));
  EXPECT_THAT(SlotsFor(4), ElementsAre(1, 2, 3));
  EXPECT_THAT(SlotsFor(1), ElementsAre(1));
}

TEST(ReplaySizes, AreThoseThatAreNamedInAscendingOrder) {
  EXPECT_THAT(SlotsFor(12, {{12, 1, 7}, {}}), ElementsAre(1, 7, 12));
}

TEST(ReplaySizes, BytesNeedTheSizeOfAnExpert) {
  const auto sizes = ReplaySizesFor({{}, {1000}}, {{0, 4, 1}}, nullptr);
  ASSERT_FALSE(sizes);
  EXPECT_EQ(sizes.error().message, "--bytes needs the size of an expert");
}

}  // namespace
}  // namespace moepack::cli
