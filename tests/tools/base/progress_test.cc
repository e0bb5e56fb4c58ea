#include "tools/base/progress.h"

#include <gtest/gtest.h>

namespace moepack::cli {
namespace {

TEST(Progress, ShowsAmountRateAndTimeLeft) {
  EXPECT_EQ(ProgressText(250'000'000, 1'000'000'000, 2.0),
            " 25%  250 MB of 1.00 GB  125 MB/s  0:06 left");
}

TEST(Progress, ShowsNoTimeLeftBeforeTheFirstByte) {
  EXPECT_EQ(ProgressText(0, 1000, 1.0), "  0%  0 B of 1.00 kB  0 B/s");
}

TEST(Progress, NeverExceedsOneHundredPercent) {
  EXPECT_EQ(ProgressText(2000, 1000, 1.0), "100%  1.00 kB of 1.00 kB  1.00 kB/s  0:00 left");
  EXPECT_EQ(ProgressText(0, 0, 0.0), "100%  0 B of 0 B  -");
}

TEST(Progress, FitsIntoTheTerminal) {
  const auto line = [](size_t columns) {
    return ProgressLine("packing", 250'000'000, 1'000'000'000, 2.0, ProgressUnit::kBytes, columns);
  };
  EXPECT_EQ(line(80), "packing   25%  250 MB of 1.00 GB  125 MB/s  0:06 left");
  EXPECT_EQ(line(50), "packing   25%  250 MB of 1.00 GB  0:06 left");
  EXPECT_EQ(line(30), "packing   25%  0:06 left");
  EXPECT_EQ(line(14), "packing   25%");
  EXPECT_EQ(line(10), " 25%");
  EXPECT_EQ(line(3), "");
  for (size_t columns = 0; columns < 70; ++columns) EXPECT_LE(line(columns).size(), columns);
}

TEST(Progress, UsesNoEscapeSequencesOnADumbTerminal) {
  EXPECT_FALSE(KnowsEscapes("dumb"));
  EXPECT_FALSE(KnowsEscapes(nullptr));
  EXPECT_FALSE(KnowsEscapes(""));
  EXPECT_TRUE(KnowsEscapes("xterm-256color"));
}

TEST(Progress, CountsTokensAsTokens) {
  EXPECT_EQ(ProgressText(1'200, 4'800, 2.0, ProgressUnit::kTokens),
            " 25%  1,200 of 4,800 tokens  600 tokens/s  0:06 left");
  EXPECT_EQ(ProgressText(0, 4'800, 1.0, ProgressUnit::kTokens),
            "  0%  0 of 4,800 tokens  0.0 tokens/s");
}

TEST(Progress, ShowsTenthsForSlowTokenRates) {
  EXPECT_EQ(FormatTokenRate(3, 2), "1.5 tokens/s");
  EXPECT_EQ(FormatTokenRate(0, 2), "0.0 tokens/s");
  EXPECT_EQ(FormatTokenRate(2'469, 2), "1,234 tokens/s");
  EXPECT_EQ(FormatTokenRate(7, 0), "-");
}

TEST(Progress, FormatsDurationsWithHoursOnlyWhenNeeded) {
  EXPECT_EQ(FormatDuration(0.4), "0:00");
  EXPECT_EQ(FormatDuration(59.6), "1:00");
  EXPECT_EQ(FormatDuration(3723), "1:02:03");
  EXPECT_EQ(FormatDuration(-1), "0:00");
}

TEST(Progress, RateWithoutTimeIsUnknown) { EXPECT_EQ(FormatRate(100, 0), "-"); }

}  // namespace
}  // namespace moepack::cli
