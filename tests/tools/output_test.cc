#include "tools/output.h"

#include <gtest/gtest.h>

namespace cli {
namespace {

TEST(Output, PluralCountsOneAndMany) {
  EXPECT_EQ(Plural(1, "file"), "1 file");
  EXPECT_EQ(Plural(0, "file"), "0 files");
  EXPECT_EQ(Plural(1234, "tensor"), "1,234 tensors");
}

TEST(Output, ExactBytesAddsTheExactNumberWhereItSaysMore) {
  EXPECT_EQ(ExactBytes(512), "512 B");
  EXPECT_EQ(ExactBytes(21567890), "21.6 MB (21,567,890 bytes)");
}

TEST(Output, WrapBreaksAtSpacesAndIndentsEveryLine) {
  EXPECT_EQ(Wrap("one two three four", 2, 10), "  one two\n  three\n  four\n");
  EXPECT_EQ(Wrap("unbreakableword x", 1, 6), " unbreakableword\n x\n");
}

TEST(Output, WrapKeepsTheLinesOfTheText) { EXPECT_EQ(Wrap("a\n\nb c", 1, 9), " a\n\n b c\n"); }

TEST(Output, ScientificShowsTheMagnitude) {
  EXPECT_EQ(Scientific(0), "0");
  EXPECT_EQ(Scientific(1.25e-5), "1.25e-05");
  EXPECT_EQ(Scientific(3), "3.00e+00");
}

}  // namespace
}  // namespace cli
