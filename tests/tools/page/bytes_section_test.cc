#include <gmock/gmock.h>

#include "tests/tools/page/page_sample.h"

namespace moepack::cli {
namespace {

using ::testing::HasSubstr;

TEST(BytesSectionTest, TableAndBarsMatchTheManifest) {
  const PageInputs inputs = FullInputs();
  const manifest::Manifest& manifest = *inputs.distribution;
  const auto section = BytesSection(inputs);
  ASSERT_TRUE(section);
  const auto rows = TableOf(section->body, "table-bytes");
  ASSERT_EQ(rows.size(), 4u);
  for (uint32_t g = 0; g < 3; ++g) {
    const uint64_t trunk = manifest.BytesOf(Role::kTrunk),
                   group = manifest.BytesOf(Role::kGroup, g), overlay = manifest.BytesOfOverlay();
    EXPECT_EQ(rows[g + 1][0], Cat(g));
    EXPECT_EQ(rows[g + 1][1], "3");
    EXPECT_EQ(rows[g + 1][2], FormatCount(trunk));
    EXPECT_EQ(rows[g + 1][3], FormatCount(group));
    EXPECT_EQ(rows[g + 1][4], FormatCount(overlay));
    EXPECT_EQ(rows[g + 1][6], FormatCount(trunk + group + overlay));
    EXPECT_THAT(section->body, HasSubstr(Cat("<title>group: ", FormatBytes(group), "</title>")));
  }
}

TEST(BytesSectionTest, MissingGroupsHaveNoNode) {
  PageInputs inputs = FullInputs();
  std::erase_if(inputs.distribution->bundles,
                [](const auto& bundle) { return bundle.group == std::optional<uint32_t>(1); });
  const auto rows = TableOf(BytesSection(inputs)->body, "table-bytes");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[2][0], "2");
}

}  // namespace
}  // namespace moepack::cli
