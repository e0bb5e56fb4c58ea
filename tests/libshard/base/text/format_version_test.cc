#include "libshard/base/text/format_version.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace moepack {
namespace {

TEST(FormatVersions, AreDigitsAPointAndDigits) {
  const auto version = ParseFormatVersion("1.20");
  ASSERT_TRUE(version);
  EXPECT_EQ(version->major, 1u);
  EXPECT_EQ(version->minor, 20u);
}

TEST(FormatVersions, AreNothingElse) {
  for (const char* text : {"", "1", "1.", ".0", ".", "1.0x", "x1.0", "1.x", "1.0 ", " 1.0", "+1.0",
                           "1.-0", "1.0.0", "01.0", "1,0", "1.0\n", "1.99999999999999999999"})
    EXPECT_FALSE(ParseFormatVersion(text)) << text;
}

TEST(FormatVersions, OfADocumentAreCheckedBesideItsName) {
  const auto code_of = [](const char* format, const char* version) {
    const Json document = {{"format", format}, {"format_version", version}};
    const auto found = CheckFormat(JsonFields(document, "x.json"), "moepack-refit", 1);
    return found ? std::optional<Code>() : std::optional(found.error().code);
  };
  EXPECT_EQ(code_of("moepack-refit", "1.7"), std::nullopt);
  EXPECT_EQ(code_of("moepack-refit", "2.0"), Code::kUnsupported);
  EXPECT_EQ(code_of("moepack-refit", "1.0x"), Code::kCorrupt);
  EXPECT_EQ(code_of("moepack-plan", "1.0"), Code::kCorrupt);
}

}  // namespace
}  // namespace moepack
