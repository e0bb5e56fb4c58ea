#include "manifest/node/node_files.h"

#include <gmock/gmock.h>

namespace moepack::manifest {
namespace {

using testing::HasSubstr;

// A packed tensor of `held` experts, each of two rows of four bytes.
struct Packed {
  explicit Packed(ExpertIds held, uint64_t rows = 2) {
    record.expert_ids = std::move(held);
    record.layer = 0;
    record.name = "blk.0.ffn_up_exps.weight";
    part.record = &record;
    part.entry.name = record.name;
    part.entry.dtype = "I8";
    part.entry.shape = {record.expert_ids.size(), rows, 4};
    part.entry.bytes = record.expert_ids.size() * rows * 4;
  }
  Packed(const Packed&) = delete;
  TensorRecord record;
  PartTensor part;
};

Error Refusal(std::vector<const PartTensor*> parts, const ExpertIds& ids) {
  const auto merged = MergeExperts("dist", parts, ids);
  EXPECT_FALSE(merged);
  return merged ? Error{Code::kIo, ""} : merged.error();
}

TEST(MergeExperts, TakesEachExpertFromThePartThatHoldsIt) {
  Packed group({0, 2}), overlay({1});
  overlay.part.entry.file = 1;
  const std::vector<const PartTensor*> parts = {&group.part, &overlay.part};
  const auto merged = MergeExperts("dist", parts, {0, 1, 2});
  ASSERT_TRUE(merged) << merged.error().message;
  EXPECT_EQ(merged->entry.shape, (std::vector<uint64_t>{3, 2, 4}));
  EXPECT_EQ(merged->entry.bytes, 24u);
  ASSERT_EQ(merged->sources.size(), 3u);
  EXPECT_EQ(merged->sources[1].file, 1u);
}

// "dxperts" for "experts" in a tensor's record: one flipped bit.
TEST(MergeExperts, ATensorWhoseRecordListsNoExpertsIsAMismatch) {
  for (const bool first : {true, false}) {
    Packed group({0, 2}), overlay({1});
    (first ? group : overlay).record.expert_ids.clear();
    const Error error = Refusal({&group.part, &overlay.part}, {0, 1, 2});
    EXPECT_EQ(error.code, Code::kMismatch);
    EXPECT_THAT(error.message,
                HasSubstr("experts: expected the ids that it holds in the manifest"));
  }
}

TEST(MergeExperts, AShapeThatContradictsTheRecordedExpertsIsAMismatch) {
  for (const std::vector<uint64_t>& shape :
       {std::vector<uint64_t>{}, {0, 2, 4}, {3, 2, 4}, {1, 2, 4}}) {
    Packed group({0, 2});
    group.part.entry.shape = shape;
    const Error error = Refusal({&group.part}, {0, 2});
    EXPECT_EQ(error.code, Code::kMismatch);
    EXPECT_THAT(error.message, HasSubstr("shape: expected 2 experts along the first axis, found"));
  }
}

// "layfr" for "layer", or the number of a layer without experts.
TEST(MergeExperts, ALayerWithoutEligibleExpertsIsAMismatch) {
  Packed group({0, 2});
  group.record.layer = std::nullopt;
  const Error error = Refusal({&group.part}, {});
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message, HasSubstr("layer: expected a layer of the plan, found none"));
}

TEST(EligibleCount, AGroupWithoutExpertsCannotBecomeANode) {
  Plan plan;
  plan.layers = {{0, 4}};
  plan.groups.resize(2);
  plan.groups[0].owned[0] = {0, 1, 2, 3};
  const auto count = EligibleCount("dist", plan, 1);
  ASSERT_FALSE(count);
  EXPECT_EQ(count.error().code, Code::kUnsupported);
  EXPECT_THAT(count.error().message, HasSubstr("group 1: layer 0: expected at least one eligible"));
}

}  // namespace
}  // namespace moepack::manifest
