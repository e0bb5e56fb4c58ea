#include "libshard/model/expert_name.h"

#include <gtest/gtest.h>

namespace moepack {
namespace {

const Family& KnownFamily(std::string_view name) {
  for (const Family& family : AllFamilies()) {
    if (family.name == name) return family;
  }
  ADD_FAILURE() << "no family " << name;
  return AllFamilies()[0];
}

TEST(RenumberExpert, ChangesTheExpertAndNothingElse) {
  FamilyMatcher qwen(KnownFamily("qwen3-moe"), 48);
  EXPECT_EQ(*RenumberExpert(qwen, "model.layers.7.mlp.experts.7.up_proj.weight", 0),
            "model.layers.7.mlp.experts.0.up_proj.weight");
  FamilyMatcher mixtral(KnownFamily("mixtral"), 32);
  EXPECT_EQ(*RenumberExpert(mixtral, "model.layers.1.block_sparse_moe.experts.3.w2.weight", 12),
            "model.layers.1.block_sparse_moe.experts.12.w2.weight");
}

TEST(RenumberExpert, RefusesNamesWithoutAnExpert) {
  FamilyMatcher qwen(KnownFamily("qwen3-moe"), 48);
  const auto renumbered = RenumberExpert(qwen, "model.layers.3.mlp.gate.weight", 1);
  ASSERT_FALSE(renumbered);
  EXPECT_EQ(renumbered.error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace moepack
