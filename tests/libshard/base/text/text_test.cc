#include "libshard/base/text/text.h"

#include <gtest/gtest.h>

#include "libshard/base/text/utf8.h"

namespace moepack {
namespace {

TEST(Text, QuotedEscapesTerminalControls) {
  EXPECT_EQ(Quoted("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(Quoted("\x1b[31m\n"), R"("\x1b[31m\x0a")");
  EXPECT_EQ(Quoted("größe"), "\"größe\"");
}

TEST(Text, QuotedEscapesControlsBeyondAscii) {
  EXPECT_EQ(Quoted("a\u202eb"), R"("a\xe2\x80\xaeb")");
  EXPECT_EQ(Quoted("a\u2066b"), R"("a\xe2\x81\xa6b")");
  EXPECT_EQ(Quoted("a\u009bb"), R"("a\xc2\x9bb")");
  EXPECT_TRUE(HasControlCharacter("a\u202eb"));
  EXPECT_TRUE(HasControlCharacter("a\tb"));
  EXPECT_FALSE(HasControlCharacter("größe \u2070 \u00a0"));
}

TEST(Text, QuotedCutsLongText) {
  const std::string quoted = Quoted(std::string(1000, 'x'));
  EXPECT_EQ(quoted, "\"" + std::string(200, 'x') + "\"... (1000 bytes)");
}

TEST(Text, BytesHaveThreeDigitsAndAUnit) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(1000), "1.00 kB");
  EXPECT_EQ(FormatBytes(21'131'520), "21.1 MB");
  EXPECT_EQ(FormatBytes(999'600), "1.00 MB");
  EXPECT_EQ(FormatBytes(600'000'000'000), "600 GB");
  EXPECT_EQ(FormatBytes(UINT64_MAX), "18.4 EB");
}

TEST(Text, CountsAreGroupedByThousands) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
}

TEST(Text, ExactBytesAddsTheExactNumberOfRoundedSizes) {
  EXPECT_EQ(ExactBytes(512), "512 B");
  EXPECT_EQ(ExactBytes(21567890), "21.6 MB (21,567,890 bytes)");
}

TEST(Text, PluralDistinguishesOneAndMany) {
  EXPECT_EQ(Plural(1, "file"), "1 file");
  EXPECT_EQ(Plural(0, "file"), "0 files");
  EXPECT_EQ(Plural(1234, "tensor"), "1,234 tensors");
}

TEST(Text, ParametersAreSpelledAsModelNamesDo) {
  EXPECT_EQ(FormatParameters(235'093'634'560), "235B");
  EXPECT_EQ(FormatParameters(22'190'000'000), "22B");
  EXPECT_EQ(FormatParameters(30'532'122'624), "31B");
  EXPECT_EQ(FormatParameters(3'350'000'000), "3.4B");
  EXPECT_EQ(FormatParameters(1'030'000'000'000), "1T");
  EXPECT_EQ(FormatParameters(400'000'000), "400M");
  EXPECT_EQ(FormatParameters(12), "12");
}

TEST(Text, SizesAreReadWithDecimalAndBinaryUnits) {
  EXPECT_EQ(ParseBytes("4096"), 4096u);
  EXPECT_EQ(ParseBytes("64M"), 64'000'000u);
  EXPECT_EQ(ParseBytes("64MB"), 64'000'000u);
  EXPECT_EQ(ParseBytes("64MiB"), uint64_t{64} << 20);
  EXPECT_EQ(ParseBytes("2g"), 2'000'000'000u);
  EXPECT_EQ(ParseBytes("1 TiB"), uint64_t{1} << 40);
  EXPECT_EQ(ParseBytes("1.5G"), 1'500'000'000u);
  EXPECT_EQ(ParseBytes("2.208MB"), 2'208'000u);
  EXPECT_EQ(ParseBytes("0.001KiB"), 1u);
  EXPECT_EQ(ParseBytes("1.999PiB"), (uint64_t{1999} << 50) / 1000);
}

TEST(Text, TextThatIsNotASizeIsRefused) {
  for (const char* text : {"", "x", "-1", "1.5", "1.5B", ".5G", "1.G", "1.2.3G", "1.2345G", "5Q",
                           "5MBB", "99999999999999999999", "1 000", "20000000T"}) {
    EXPECT_FALSE(ParseBytes(text).has_value()) << text;
  }
}

TEST(Text, UnsignedNumbersDoNotOverflow) {
  EXPECT_EQ(ParseUint("18446744073709551615"), UINT64_MAX);
  EXPECT_FALSE(ParseUint("18446744073709551616").has_value());
  EXPECT_FALSE(ParseUint("+1").has_value());
  EXPECT_FALSE(ParseUint("").has_value());
}

TEST(Text, SplitKeepsEmptyPartsAndJoinUndoesIt) {
  const std::vector<std::string> parts = Split(".a..b", '.');
  EXPECT_EQ(parts, (std::vector<std::string>{"", "a", "", "b"}));
  EXPECT_EQ(Join(parts, "."), ".a..b");
}

TEST(Text, ShapesAndPaddedNumbersAreSpelledOut) {
  EXPECT_EQ(FormatShape({}), "[]");
  EXPECT_EQ(FormatShape({2, 3}), "[2, 3]");
  EXPECT_EQ(ZeroPadded(7, 3), "007");
  EXPECT_EQ(ZeroPadded(1234, 3), "1234");
}

}  // namespace
}  // namespace moepack
