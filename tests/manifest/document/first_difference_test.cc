#include "manifest/document/first_difference.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace moepack::manifest {
namespace {

std::string Text(const char* expected, const char* found) {
  const auto difference = FirstDifference("", Json::parse(expected), Json::parse(found));
  if (!difference) return "";
  return difference->thing + ": " + difference->expected + ", " + difference->found;
}

TEST(FirstDifference, NamesThePathAndBothValues) {
  EXPECT_EQ(Text(R"({"a": {"b": [1, {"c": "x"}]}})", R"({"a": {"b": [1, {"c": "y"}]}})"),
            "a.b[1].c: \"x\", \"y\"");
  EXPECT_EQ(Text(R"({"a": 1})", R"({"a": [1]})"), "a: 1, an array of 1 value");
}

TEST(FirstDifference, NamesWhatOneDocumentLacks) {
  EXPECT_EQ(Text(R"({"a": 1, "b": 2})", R"({"a": 1})"), "b: 2, none");
  EXPECT_EQ(Text(R"({"a": 1})", R"({"b": 2, "a": 1})"), "b: none, 2");
  EXPECT_EQ(Text(R"({"a": [1, 2]})", R"({"a": [1]})"), "a: entries: 2, 1");
}

TEST(FirstDifference, FindsTheFirstOfSeveralAndIgnoresTheOrderOfKeys) {
  EXPECT_EQ(Text(R"({"a": 1, "b": 2})", R"({"b": 3, "a": 4})"), "a: 1, 4");
  EXPECT_EQ(Text(R"({"a": 1, "b": {"c": 2, "d": 3}})", R"({"b": {"d": 3, "c": 2}, "a": 1})"), "");
}

}  // namespace
}  // namespace moepack::manifest
