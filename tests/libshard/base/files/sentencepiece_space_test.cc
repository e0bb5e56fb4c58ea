#include "libshard/base/files/sentencepiece_space.h"

#include <gtest/gtest.h>

namespace moepack {
namespace {

TEST(SpaceMark, EveryMarkBecomesOneSpace) {
  EXPECT_EQ(MarksToSpaces("\u2581a\u2581\u2581b\u2581"), " a  b ");
  EXPECT_EQ(MarksToSpaces("\u2581"), " ");
  EXPECT_EQ(MarksToSpaces("<\uff5cend\u2581of\u2581sentence\uff5c>"),
            "<\uff5cend of sentence\uff5c>");
}

TEST(SpaceMark, EverythingElseStaysUnchanged) {
  EXPECT_EQ(MarksToSpaces(""), "");
  EXPECT_EQ(MarksToSpaces("a b\n"), "a b\n");
  EXPECT_EQ(MarksToSpaces("\u2580\u2582\xe2\x96"), "\u2580\u2582\xe2\x96") << "parts of the mark";
}

}  // namespace
}  // namespace moepack
