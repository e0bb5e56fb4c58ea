#include "libshard/families/windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/model/layer_fields.h"

namespace moepack {
namespace {

using testing::ElementsAre;

TEST(Windows, WordsAndNumbersNameTheBlocksWithAWindow) {
  HfShape shape;
  shape.layers = 2;
  for (const char* text : {R"({"layer_types": ["sliding_attention", "full_attention"]})",
                           R"({"hybrid_layer_pattern": [1, 0]})"}) {
    const auto windowed =
        ReadWindowed(*HfConfig::Parse("config.json", text), shape, fields::kLayerTypes);
    ASSERT_TRUE(windowed) << windowed.error().message;
    EXPECT_THAT(*windowed, ElementsAre(true, false)) << text;
    EXPECT_THAT(ByWindow(*windowed, 3, 4), ElementsAre(3, 4));
  }
}

TEST(Windows, TheWindowMustBeStated) {
  GgufMetadata metadata;
  ArchKeys keys("arch", metadata);
  EXPECT_TRUE(AddWindowKey(*HfConfig::Parse("c", R"({"sliding_window": 8})"), keys));
  EXPECT_EQ(metadata.Uint("arch.attention.sliding_window"), 8u);
  EXPECT_EQ(AddWindowKey(*HfConfig::Parse("c", "{}"), keys).error().code, Code::kCorrupt);
}

TEST(Windows, KeyHeadsMustDivideTheHeads) {
  const HfConfig config = *HfConfig::Parse("c", R"({"swa_num_key_value_heads": 3})");
  EXPECT_TRUE(CheckKeyHeads(config, fields::kWindowKeyHeads, 6, 3));
  for (const uint32_t key_heads : {0u, 4u}) {
    const Status status = CheckKeyHeads(config, fields::kWindowKeyHeads, 6, key_heads);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().message,
              "c: swa_num_key_value_heads: expected a divisor of the 6 attention heads, found 3");
  }
}

}  // namespace
}  // namespace moepack
