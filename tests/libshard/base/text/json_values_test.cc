#include "libshard/base/text/json_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack {
namespace {

using testing::HasSubstr;

TEST(JsonValues, CountsScalarsKeysObjectsAndArrays) {
  EXPECT_TRUE(CheckJsonValues("f", "1", 1));
  EXPECT_TRUE(CheckJsonValues("f", R"({"a": [1, "b,[{:", 2]})", 7));
  const Status status = CheckJsonValues("f", R"(["a\"", "b", ["\\"], {}])", 5);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kCorrupt);
  EXPECT_THAT(status.error().message, HasSubstr("at most 5 values in one document, found"));
}

TEST(JsonValues, AcceptsTextThatIsNotJson) {
  for (const char* text : {"", "\"", "\"\\", "\\", "]]]", "[[[["}) {
    EXPECT_TRUE(CheckJsonValues("f", text, 100)) << text;
  }
}

}  // namespace
}  // namespace moepack
