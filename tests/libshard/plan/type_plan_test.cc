#include "libshard/plan/type_plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace moepack {
namespace {

const TypePlan kPinned = {{"^blk\\.(0|1)\\.attn_k\\.weight$=q5_K"}, 6000, 5990, 0.5, 0.25};

TEST(TypePlan, IsReadAsItWasWritten) {
  const auto read = TypePlanFromJson("p: types", TypePlanToJson(kPinned));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, kPinned);
}

std::string TypeRefusal(const char* key, const Json& value) {
  Json document = TypePlanToJson(kPinned);
  document[key] = value;
  const auto read = TypePlanFromJson("p: types", document);
  EXPECT_FALSE(read) << key;
  if (read) return "";
  EXPECT_EQ(read.error().code, Code::kCorrupt);
  return read.error().message;
}

TEST(TypePlan, BadMembersAreNamed) {
  EXPECT_EQ(TypeRefusal("bytes", uint64_t{6001}),
            "p: types: bytes: expected at most the budget, found 6001");
  EXPECT_EQ(TypeRefusal("damage_bound", 0.75),
            "p: types: damage_bound: expected at most the damage, found 0.75");
  EXPECT_EQ(TypeRefusal("damage", -1.0), "p: types: damage: expected at least 0, found -1.0");
  EXPECT_EQ(TypeRefusal("tensor_types", Json::array({7})),
            "p: types: tensor_types: expected REGEX=TYPE, found 7");
  Json rules = Json::array();
  for (int i = 0; i < 20001; ++i) rules.push_back("a=f16");
  EXPECT_EQ(TypeRefusal("tensor_types", rules),
            "p: types: tensor_types: expected at most 20000 rules, found 20001");
}

}  // namespace
}  // namespace moepack
