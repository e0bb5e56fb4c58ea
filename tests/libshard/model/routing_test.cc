#include "libshard/model/routing.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

TEST(Gatings, HaveUniqueNamesAndNumbers) {
  std::set<std::string_view> names;
  std::set<uint32_t> ids;
  const std::vector<std::string> listed = Split(GatingNames(), ',');
  for (const std::string& text : listed) {
    const std::string name = text.substr(text.find_first_not_of(' '));
    const std::optional<Gating> gating = FindGating(name);
    ASSERT_TRUE(gating) << name;
    const GatingRow& row = RowOf(*gating);
    EXPECT_EQ(row.name, name);
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(row.alias.empty() || names.insert(row.alias).second) << row.alias;
    EXPECT_TRUE(row.gguf_id == kNoGgufId || ids.insert(row.gguf_id).second) << row.name;
    EXPECT_EQ(FindGgufGating(row.gguf_id).value_or(row.gating), row.gating);
  }
  EXPECT_EQ(listed.size(), 5u);
}

TEST(Gatings, AreNotFoundUnderUnknownNamesAndNumbers) {
  for (const char* name : {"", "top1", "Softmax", "noaux_tc"}) {
    EXPECT_EQ(FindGating(name), std::nullopt) << name;
  }
  for (const uint64_t id : {0u, 5u, 1u << 31}) EXPECT_EQ(FindGgufGating(id), std::nullopt) << id;
  EXPECT_EQ(FindConfigGating("Softmax"), Gating::kSoftmax);
  EXPECT_EQ(FindConfigGating("noaux_tc"), Gating::kSigmoid);
  EXPECT_EQ(FindConfigGating(""), std::nullopt);
}

TEST(Routing, FallsBackToTheUsualRouting) {
  const Routing usual = {
      .gating = Gating::kSigmoid, .normalize = false, .scale = 2.5, .groups = 8, .groups_used = 4};
  const Routing same = Overlay(usual, {});
  EXPECT_EQ(same.gating, Gating::kSigmoid);
  EXPECT_FALSE(same.normalize);
  EXPECT_EQ(same.scale, 2.5);
  EXPECT_EQ(same.groups, 8u);
  StatedRouting stated;
  stated.gating = Gating::kSoftmax;
  stated.normalize = true;
  stated.scale = 1;
  stated.groups = 0;
  const Routing other = Overlay(usual, stated);
  EXPECT_EQ(other.gating, Gating::kSoftmax);
  EXPECT_TRUE(other.normalize);
  EXPECT_EQ(other.scale, 1);
  EXPECT_EQ(other.groups, 0u);
  EXPECT_EQ(other.groups_used, 4u);
}

TEST(Routing, TreatsAScaleOfZeroAsOne) {
  EXPECT_EQ(ScaleOf({}), 1.0f);
  EXPECT_EQ(ScaleOf({.scale = 0}), 1.0f);
  EXPECT_EQ(ScaleOf({.scale = 1.8}), 1.8f);
}

}  // namespace
}  // namespace moepack
