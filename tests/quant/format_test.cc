#include "quant/format.h"

#include <gtest/gtest.h>

#include <set>

namespace quant {
namespace {

TEST(Format, NamesAndIdsAreUnique) {
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

TEST(Format, CountsBytesOnlyOfWholeBlocks) {
  EXPECT_EQ(FindFormat("bf16")->BytesFor(3), 6u);
  EXPECT_EQ(FindFormat("q4_K")->BytesFor(512), 288u);
  EXPECT_FALSE(FindFormat("q4_K")->BytesFor(100).has_value());
  EXPECT_EQ(FindFormat("f4")->BytesFor(6), 3u);
  EXPECT_FALSE(FindFormat("f4")->BytesFor(5).has_value());
  EXPECT_EQ(FindFormat("f6_e2m3")->BytesFor(8), 6u);
  EXPECT_FALSE(FindFormat("f64")->BytesFor(uint64_t{1} << 62).has_value());
}

// Every type in a GGUF file can at least be cut and copied (reference: ggml's type traits).
TEST(Format, HasEveryTypeThatGgmlStillReads) {
  const std::set<int> removed = {4, 5, 31, 32, 33, 36, 37, 38};
  const std::set<int> internal = {9, 15};  // q8_1 and q8_K: used in products, not in files
  for (int id = 0; id <= 42; ++id) {
    const bool ours = removed.count(id) == 0 && internal.count(id) == 0;
    EXPECT_EQ(FindGgmlFormat(id) != nullptr, ours) << id;
  }
}

TEST(Format, TypesThatAreOnlyCopiedHaveTheirBlockSizes) {
  struct Geometry {
    const char* name;
    int id;
    uint32_t values, bytes;
  };
  for (const Geometry& expected : {Geometry{"q1_0", 41, 128, 18}, Geometry{"q2_0", 42, 64, 18}}) {
    const Format* format = FindFormat(expected.name);
    ASSERT_NE(format, nullptr) << expected.name;
    EXPECT_EQ(FindGgmlFormat(expected.id), format);
    EXPECT_EQ(format->block_values, expected.values) << expected.name;
    EXPECT_EQ(format->block_bytes, expected.bytes) << expected.name;
    EXPECT_EQ(format->encode, nullptr) << expected.name;
    EXPECT_EQ(format->decode, nullptr) << expected.name;
  }
}

}  // namespace
}  // namespace quant
