#include "libshard/model/block_name.h"

#include <gtest/gtest.h>

namespace moepack {
namespace {

TEST(BlockName, HasTheNumberAndWhatFollowsIt) {
  const auto name = ParseBlockName("blk.12.ffn_gate.3.weight");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->block, 12u);
  EXPECT_EQ(name->rest, "ffn_gate.3.weight");
}

TEST(BlockName, SaturatesWhereANumberIsTooLarge) {
  const auto name = ParseBlockName("blk.99999999999999999999.attn_q.weight");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->block, UINT64_MAX);
  EXPECT_EQ(name->rest, "attn_q.weight");
}

TEST(BlockName, IsNoneOutsideBlocks) {
  for (const char* name : {"", "blk", "blk.", "blk..x", "blk.1", "blk.-1.x", "blk.1a.x", "blk.+1.x",
                           "output.weight", "model.blk.1.x", "BLK.1.x"}) {
    EXPECT_FALSE(ParseBlockName(name)) << name;
  }
}

}  // namespace
}  // namespace moepack
