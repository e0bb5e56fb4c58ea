#include "libshard/recipe/imatrix_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/recipe/recipe_model.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kName = "blk.0.ffn_down_exps.weight";

// Four experts, rows of two values; the importance that ApplyImatrix set is 1 everywhere.
GgufTensor FourExperts() {
  GgufTensor tensor = RecipeTensor(kName, {4, 2, 2});
  tensor.expert_count = 4;
  auto importance = std::make_shared<Importance>();
  importance->row_values = 2;
  importance->values.assign(8, 1);
  tensor.importance = importance;
  return tensor;
}

Imatrix WithGroupEntry(ImatrixEntry entry) {
  Imatrix imatrix;
  imatrix.file = "im.gguf";
  imatrix.entries[GroupEntryName(1, kName)] = std::move(entry);
  return imatrix;
}

TEST(ImatrixGroups, PutTheGroupBeforeTheTensorName) {
  EXPECT_EQ(GroupEntryName(1, kName), "group.001.blk.0.ffn_down_exps.weight");
  EXPECT_TRUE(IsGroupEntry(GroupEntryName(12, kName)));
  EXPECT_FALSE(IsGroupEntry(kName));
}

TEST(ImatrixGroups, GiveTheExpertsOfAGroupTheirOwnRows) {
  const Imatrix imatrix = WithGroupEntry({{8, 16, 9, 3}, {4, 3}});
  const auto own = GroupImportance(imatrix, FourExperts(), {1, {0, 3}});
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_THAT((*own)->values, ElementsAre(2, 4, 1, 1, 1, 1, 3, 1));
  EXPECT_FALSE((*own)->digest.empty());
}

TEST(ImatrixGroups, FindTheGroupsEntryByTheInput) {
  Imatrix imatrix;
  imatrix.entries[GroupEntryName(1, "blk.0.ffn_up_exps.weight")] = {{8, 16, 9, 3}, {4, 3}};
  GgufTensor gate = FourExperts();
  gate.name = "blk.0.ffn_gate_exps.weight";
  const auto own = GroupImportance(imatrix, gate, {1, {0, 3}});
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_THAT((*own)->values, ElementsAre(2, 4, 1, 1, 1, 1, 3, 1));
}

TEST(ImatrixGroups, KeepTheModelsRowsForUnusedExpertsAndOtherGroups) {
  const Imatrix imatrix = WithGroupEntry({{0, 0, 9, 3}, {0, 3}});
  const GgufTensor tensor = FourExperts();
  const auto own = GroupImportance(imatrix, tensor, {1, {0, 3}});
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_THAT((*own)->values, ElementsAre(1, 1, 1, 1, 1, 1, 3, 1));
  EXPECT_EQ(*GroupImportance(imatrix, tensor, {0, {1, 2}}), tensor.importance);
}

TEST(ImatrixGroups, NameAnEntryOfAnotherLength) {
  const Imatrix imatrix = WithGroupEntry({{8, 16, 9, 3}, {4, 3}});
  const auto wrong = GroupImportance(imatrix, FourExperts(), {1, {0, 1, 3}});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Code::kMismatch);
  EXPECT_THAT(wrong.error().message,
              HasSubstr("im.gguf: entry \"group.001.blk.0.ffn_down_exps.weight\": expected 6 sums "
                        "with 3 counts, found 4 with 2"));
}

TEST(ImatrixGroups, AreNotReportedAsUnknownTensors) {
  GgufModel model;
  model.tensors.push_back(RecipeTensor(kName, {4, 2, 2}));
  const auto use = ApplyImatrix(WithGroupEntry({{8, 16, 9, 3}, {4, 3}}), model);
  ASSERT_TRUE(use) << use.error().message;
  EXPECT_THAT(use->unknown, IsEmpty());
}

}  // namespace
}  // namespace moepack
