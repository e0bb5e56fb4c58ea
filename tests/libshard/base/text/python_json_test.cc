#include "libshard/base/text/python_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace moepack {
namespace {

TEST(PythonJson, InfinityIsKeptThroughReadingAndWriting) {
  const std::string text =
      "{\n  \"Infinity\": 1,\n  \"limit\": [0.0, Infinity, -Infinity],\n  \"x\": -Infinity\n}\n";
  const Result<Json> parsed = ParsePythonJson("c", text);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(WritePythonJson(*parsed), text);
}

TEST(PythonJson, LeavesInfinityAndNanInsideStringsAlone) {
  const Result<Json> parsed = ParsePythonJson("c", R"({"a": "to \"Infinity and NaN"})");
  ASSERT_TRUE(parsed);
  EXPECT_EQ((*parsed)["a"], "to \"Infinity and NaN");
}

TEST(PythonJson, InfinityCannotBeAKey) {
  for (const char* text : {R"({Infinity: 1})", R"({"a": 1, -Infinity : 1})"}) {
    const Result<Json> parsed = ParsePythonJson("c", text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, Code::kCorrupt);
    EXPECT_THAT(parsed.error().message, testing::StartsWith("c: JSON: ")) << text;
  }
}

TEST(PythonJson, RefusesTextAfterANul) {
  const Result<Json> parsed = ParsePythonJson("c", std::string_view("{}\0{\"a\": 1}", 11));
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().message, "c: JSON: byte 2: expected text, found a NUL byte");
}

TEST(PythonJson, NanIsRefusedWithItsPlace) {
  const Result<Json> parsed = ParsePythonJson("c.json", R"({"a": NaN})");
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, Code::kCorrupt);
  EXPECT_THAT(parsed.error().message, testing::HasSubstr("c.json: byte 6: expected a number"));
}

}  // namespace
}  // namespace moepack
