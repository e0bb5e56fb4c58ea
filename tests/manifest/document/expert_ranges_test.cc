#include "manifest/document/expert_ranges.h"

#include <gtest/gtest.h>

namespace moepack::manifest {
namespace {

TensorRecord Record(const char* name, uint64_t offset, uint64_t bytes, ExpertIds ids) {
  TensorRecord record;
  record.name = name;
  record.offset = offset;
  record.bytes = bytes;
  record.layer = 1;
  record.expert_ids = std::move(ids);
  return record;
}

BundleRecord Bundle(Role role, std::optional<uint32_t> group, const char* file) {
  BundleRecord bundle;
  bundle.role = role;
  bundle.group = group;
  bundle.file = file;
  bundle.format = "gguf";
  return bundle;
}

// Two groups of two experts; the overlay repeats expert 0.
Manifest Split() {
  Manifest manifest;
  manifest.model.moe_layers = {{1, 4}};
  manifest.model.top_k = {{1, 2}};
  manifest.bundles = {Bundle(Role::kTrunk, std::nullopt, "trunk/trunk.gguf"),
                      Bundle(Role::kGroup, 0, "groups/000/experts.gguf"),
                      Bundle(Role::kGroup, 1, "groups/001/experts.gguf"),
                      Bundle(Role::kOverlay, std::nullopt, "overlays/o/experts.gguf")};
  manifest.bundles[1].tensors = {Record("blk.1.ffn_gate_inp.weight", 0, 64, {0, 3}),
                                 Record("blk.1.ffn_up_exps.weight", 100, 200, {0, 3}),
                                 Record("blk.1.ffn_down_exps.weight", 300, 400, {0, 3})};
  manifest.bundles[2].tensors = {Record("blk.1.ffn_up_exps.weight", 50, 200, {1, 2})};
  manifest.bundles[3].tensors = {Record("blk.1.ffn_up_exps.weight", 9, 100, {0})};
  return manifest;
}

TEST(ExpertRanges, AnExpertIsInTheFirstBundleThatHoldsIt) {
  const auto ranges = RangesOf("d", Split());
  ASSERT_TRUE(ranges);
  const auto& experts = ranges->at(1);
  ASSERT_EQ(experts.size(), 4u);
  EXPECT_EQ(experts[0], (std::vector<SourceRange>{{1, 100, 100, 0}, {1, 300, 200, 0}}));
  EXPECT_EQ(experts[3], (std::vector<SourceRange>{{1, 200, 100, 0}, {1, 500, 200, 0}}));
  EXPECT_EQ(experts[2], (std::vector<SourceRange>{{2, 150, 100, 0}}));
  EXPECT_EQ(ShapesOf(Split()), (std::vector<MoeLayerShape>{{1, 4, 2}}));
}

TEST(ExpertRanges, AMissingExpertIsNamed) {
  Manifest manifest = Split();
  manifest.bundles.erase(manifest.bundles.begin() + 2);
  const auto ranges = RangesOf("d", manifest);
  ASSERT_FALSE(ranges);
  EXPECT_EQ(ranges.error().code, Code::kNotFound);
  EXPECT_EQ(ranges.error().message,
            "d: layer 1: expected all experts, found no bundle with expert 1");
}

}  // namespace
}  // namespace moepack::manifest
