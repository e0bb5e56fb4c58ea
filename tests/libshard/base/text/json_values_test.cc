#include "libshard/base/text/json_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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

TEST(ParseJsonObject, AcceptsOnlyAnObjectThatIsSmallEnough) {
  const auto object = ParseJsonObject("f", R"({"a": 1})", 3);
  ASSERT_TRUE(object) << object.error().message;
  EXPECT_EQ((*object)["a"], 1);
  for (const char* text : {R"({"a": 1, "b": 2})", "[1]", "1", "{"}) {
    const auto refused = ParseJsonObject("f", text, 3);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, Code::kCorrupt) << text;
  }
  EXPECT_EQ(ParseJsonObject("f", "[1]", 3).error().message,
            "f: expected an object, found an array of 1 value");
}

}  // namespace
}  // namespace moepack
