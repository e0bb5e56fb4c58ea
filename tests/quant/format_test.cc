#include "quant/format.h"

#include <gtest/gtest.h>

#include <set>

namespace quant {
namespace {

TEST(Format, EveryRowHasItsOwnNamesAndIds) {
  std::set<std::string_view> names, dtypes;
  std::set<int> ids;
  for (const Format& format : AllFormats()) {
    EXPECT_TRUE(names.insert(format.name).second) << format.name;
    if (!format.safetensors.empty()) {
      EXPECT_TRUE(dtypes.insert(format.safetensors).second) << format.name;
    }
    if (format.ggml_type >= 0) {
      EXPECT_TRUE(ids.insert(format.ggml_type).second) << format.name;
    }
    EXPECT_GT(format.block_values, 0u);
    EXPECT_GT(format.block_bytes, 0u);
  }
}

TEST(Format, IsFoundByNameDtypeAndGgmlId) {
  EXPECT_EQ(FindFormat("Q4_K"), FindFormat("q4_K"));
  ASSERT_NE(FindFormat("q4_K"), nullptr);
  EXPECT_EQ(FindFormat("q4_K")->ggml_type, 12);
  EXPECT_EQ(FindSafetensorsFormat("F8_E4M3")->name, "f8_e4m3");
  EXPECT_EQ(FindSafetensorsFormat("q4_K"), nullptr);
  EXPECT_EQ(FindSafetensorsFormat(""), nullptr);
  EXPECT_EQ(FindGgmlFormat(30)->name, "bf16");
  EXPECT_EQ(FindGgmlFormat(-1), nullptr);
  EXPECT_EQ(FindFormat("no such type"), nullptr);
}

TEST(Format, CountsBytesOfWholeBlocksOnly) {
  EXPECT_EQ(FindFormat("bf16")->BytesFor(3), 6u);
  EXPECT_EQ(FindFormat("q4_K")->BytesFor(512), 288u);
  EXPECT_FALSE(FindFormat("q4_K")->BytesFor(100).has_value());
  EXPECT_EQ(FindFormat("f4")->BytesFor(6), 3u);
  EXPECT_FALSE(FindFormat("f4")->BytesFor(5).has_value());
  EXPECT_EQ(FindFormat("f6_e2m3")->BytesFor(8), 6u);
  EXPECT_FALSE(FindFormat("f64")->BytesFor(uint64_t{1} << 62).has_value());
}

TEST(Format, KnowsTheBitsOfAValue) {
  EXPECT_DOUBLE_EQ(FindFormat("q4_K")->BitsPerValue(), 4.5);
  EXPECT_DOUBLE_EQ(FindFormat("q8_0")->BitsPerValue(), 8.5);
  EXPECT_DOUBLE_EQ(FindFormat("mxfp4")->BitsPerValue(), 4.25);
}

}  // namespace
}  // namespace quant
