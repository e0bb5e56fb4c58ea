#include "libshard/convert/gguf_cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "libshard/model/gguf_experts.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;

// One layer; `ids` are kept.
ExpertCut Keep(ExpertIds ids) {
  ExpertCut cut;
  cut.expert_count = static_cast<uint32_t>(ids.size());
  cut.eligible[0] = std::move(ids);
  return cut;
}

// 8 experts, 3 of them used.
struct Model {
  explicit Model(const std::string& name = "deepseek2") : architecture(name) {
    metadata.Set("general.architecture", GgufValue::String(name));
    Set("expert_count", GgufValue::U32(8));
    Set("expert_used_count", GgufValue::U32(3));
  }
  std::string Key(const std::string& key) const { return architecture + "." + key; }
  void Set(const std::string& key, GgufValue value) { metadata.Set(Key(key), std::move(value)); }
  std::optional<uint64_t> Uint(const std::string& key) const { return metadata.Uint(Key(key)); }
  void Groups(uint32_t count, uint32_t used) {
    Set("expert_group_count", GgufValue::U32(count));
    Set("expert_group_used_count", GgufValue::U32(used));
  }
  // "" or the message.
  std::string Cut(const ExpertCut& cut) {
    const Status status = CutMetadata("f.gguf", cut, metadata, notes);
    return status ? "" : status.error().message;
  }

  std::string architecture;
  GgufMetadata metadata;
  std::vector<std::string> notes;
};

TEST(CutMetadata, SetsTheCountAndLeavesTheRestAlone) {
  Model model;
  model.metadata.Set("general.name", GgufValue::String("experts"));
  model.metadata.Set("tokenizer.ggml.model", GgufValue::String("gpt2"));
  model.Set("expert_shared_count", GgufValue::U32(1));
  model.Set("expert_weights_scale", GgufValue::F32(2.5f));
  const GgufMetadata before = model.metadata;
  EXPECT_EQ(model.Cut(Keep({1, 2, 5, 7})), "");
  EXPECT_THAT(model.Uint("expert_count"), Optional(4u));
  EXPECT_EQ(model.metadata.Find("deepseek2.expert_count")->type, GgufType::kU32);
  EXPECT_THAT(model.notes, IsEmpty());
  ASSERT_EQ(model.metadata.entries().size(), before.entries().size());
  for (const GgufEntry& entry : before.entries()) {
    if (entry.key == "deepseek2.expert_count") continue;
    EXPECT_EQ(*model.metadata.Find(entry.key), entry.value) << entry.key;
  }
}

TEST(CutMetadata, KeepingAllExpertsChangesNothing) {
  Model model("llama4");
  model.Set("expert_count", GgufValue::U32(128));
  model.Set("expert_secret", GgufValue::U32(1));
  ExpertCut all;
  all.expert_count = 128;
  EXPECT_EQ(model.Cut(all), "");
  EXPECT_THAT(model.Uint("expert_count"), Optional(128u));
}

TEST(CutMetadata, LowersTopKWithANote) {
  Model model;
  EXPECT_EQ(model.Cut(Keep({0, 1})), "");
  EXPECT_THAT(model.Uint("expert_used_count"), Optional(2u));
  EXPECT_THAT(model.notes, ElementsAre(HasSubstr("expert_used_count is lowered from 3 to 2")));
}

TEST(CutMetadata, LowersTopKPerLayer) {
  Model model;
  model.Set("expert_used_count", GgufValue::I32s(std::vector<int32_t>{1, 3, 2}));
  EXPECT_EQ(model.Cut(Keep({0, 1})), "");
  EXPECT_THAT(model.metadata.Find("deepseek2.expert_used_count")->AsUints(),
              Optional(ElementsAre(1, 2, 2)));
}

TEST(CutMetadata, WritesTheWidthBeforeLoweringTopK) {
  for (const char* name : {"qwen2moe", "qwen3moe", "qwen3next", "qwen35moe"}) {
    Model model(name);
    model.Set("feed_forward_length", GgufValue::U32(96));
    EXPECT_EQ(model.Cut(Keep({0, 1})), "");
    EXPECT_THAT(model.Uint("expert_feed_forward_length"), Optional(32u)) << name;
  }
  Model kept("qwen3moe"), impossible("qwen3moe"), unread("llama");
  kept.Set("expert_feed_forward_length", GgufValue::U32(7));
  EXPECT_EQ(kept.Cut(Keep({0, 1})), "");
  EXPECT_THAT(kept.Uint("expert_feed_forward_length"), Optional(7u));
  EXPECT_THAT(impossible.Cut(Keep({0, 1})), HasSubstr("no way to work it out"));
  EXPECT_EQ(unread.Cut(Keep({0, 1})), "");
  EXPECT_EQ(unread.Uint("expert_feed_forward_length"), std::nullopt);
}

TEST(CutMetadata, KeepsRoutingGroupsThatKeepEquallyManyExperts) {
  Model model;
  model.Groups(2, 1);
  model.Set("expert_used_count", GgufValue::U32(2));
  EXPECT_EQ(model.Cut(Keep({0, 3, 5, 6})), "");
  EXPECT_THAT(model.Uint("expert_group_count"), Optional(2u));
  EXPECT_THAT(model.Uint("expert_group_used_count"), Optional(1u));
  EXPECT_THAT(model.notes, IsEmpty());
}

TEST(CutMetadata, DropsRoutingGroupsThatCannotStay) {
  const struct {
    const char* why;
    ExpertIds ids;
    uint32_t groups, used, top_k;
  } cases[] = {{"unequal", {0, 1, 2, 5}, 2, 1, 2},
               {"one expert of each group", {0, 2, 4, 6}, 4, 2, 2},
               {"too few to choose", {0, 1, 4, 5}, 2, 1, 3},
               {"not of equal size", {0, 1, 4, 5}, 3, 1, 2}};
  for (const auto& one : cases) {
    Model model;
    model.Groups(one.groups, one.used);
    model.Set("expert_used_count", GgufValue::U32(one.top_k));
    EXPECT_EQ(model.Cut(Keep(one.ids)), "") << one.why;
    EXPECT_EQ(model.Uint("expert_group_count"), std::nullopt) << one.why;
    EXPECT_EQ(model.Uint("expert_group_used_count"), std::nullopt) << one.why;
    EXPECT_THAT(model.notes, ElementsAre(HasSubstr("routing groups are removed"))) << one.why;
  }
}

TEST(CutMetadata, OneLayerIsEnoughToDropTheRoutingGroups) {
  Model model;
  model.Groups(2, 2);
  ExpertCut cut = Keep({0, 1, 4, 5});
  cut.eligible[1] = {0, 1, 2, 5};
  EXPECT_EQ(model.Cut(cut), "");
  EXPECT_THAT(model.notes, ElementsAre(HasSubstr("layer 1 does not keep equally many")));
}

TEST(CutMetadata, KeepsASingleGroupUnlessOnlyOneExpertIsLeft) {
  Model two, one;
  two.Groups(1, 1);
  one.Groups(1, 1);
  EXPECT_EQ(two.Cut(Keep({3, 4})), "");
  EXPECT_THAT(two.Uint("expert_group_count"), Optional(1u));
  EXPECT_EQ(one.Cut(Keep({3})), "");
  EXPECT_EQ(one.Uint("expert_group_count"), std::nullopt);
  EXPECT_THAT(one.notes, Contains(HasSubstr("llama.cpp aborts unless")));
  EXPECT_THAT(one.Uint("expert_used_count"), Optional(1u));
}

TEST(CutMetadata, RefusesToCutLlama4FromOrToTheSizeOfMaverick) {
  Model maverick("llama4"), scout("llama4"), cut("llama4");
  maverick.Set("expert_count", GgufValue::U32(128));
  EXPECT_THAT(maverick.Cut(Keep({0, 1, 2})), HasSubstr("Maverick"));
  EXPECT_EQ(scout.Cut(Keep({0, 1, 2})), "");
  cut.Set("expert_count", GgufValue::U32(200));
  ExpertIds ids(128);
  for (uint32_t i = 0; i < 128; ++i) ids[i] = i;
  EXPECT_THAT(cut.Cut(Keep(ids)), HasSubstr("found 200 cut to 128"));
}

TEST(CutMetadata, RefusesLayersThatKeepDifferentNumbers) {
  Model model;
  ExpertCut cut = Keep({0, 1});
  cut.eligible[3] = {0, 1, 2};
  EXPECT_THAT(model.Cut(cut), HasSubstr("expected 2 experts in every layer, found 3 in layer 3"));
}

TEST(CutMetadata, RefusesCountsThatTheModelCannotHave) {
  Model model;
  EXPECT_THAT(model.Cut(Keep({0, 8})), HasSubstr("expected ids below 8, found 8"));
  EXPECT_THAT(model.Cut(Keep({})), HasSubstr("to keep 0 of, found 8"));
  model.Set("expert_count", GgufValue::U32(1));
  EXPECT_THAT(model.Cut(Keep({0, 1})), HasSubstr("expected at least 2 experts"));
  model.metadata.Remove("deepseek2.expert_count");
  EXPECT_THAT(model.Cut(Keep({0, 1})), HasSubstr("found none"));
}

TEST(CutMetadata, RefusesKeysThatDependOnTheExpertsInOtherWays) {
  const std::pair<const char*, GgufValue> keys[] = {
      {"expert_secret", GgufValue::U32(1)},
      {"some.experts", GgufValue::U32(1)},
      {"hash_layer_count", GgufValue::U32(3)},
      {"experts_per_group", GgufValue::U32(2)},
      {"expert_used_count", GgufValue::String("3")},
      {"expert_count", GgufValue::U32s(std::vector<uint32_t>{8, 8})}};
  for (const auto& [key, value] : keys) {
    Model model;
    model.Set(key, value);
    EXPECT_THAT(model.Cut(Keep({0, 1, 2})), HasSubstr(Cat("key \"deepseek2.", key, "\"")));
  }
  Model harmless;
  harmless.Set("hash_layer_count", GgufValue::U32(0));
  harmless.metadata.Set("general.experts", GgufValue::U32(3));
  EXPECT_EQ(harmless.Cut(Keep({0, 1, 2})), "");
}

TEST(CutMetadata, CutsAnArchitectureThatStockRuntimesDoNotHaveLikeAnyOther) {
  Model model("newmoe");
  EXPECT_EQ(model.Cut(Keep({1, 2, 5, 7})), "");
  EXPECT_EQ(model.metadata.Uint("newmoe.expert_count"), 4u);
}

GgufMetadata UsingTwo(const std::string& architecture) {
  GgufMetadata metadata;
  metadata.Set("general.architecture", GgufValue::String(architecture));
  metadata.Set(architecture + ".expert_used_count", GgufValue::U32(2));
  return metadata;
}

TEST(UsedExperts, ReplacesASingleCount) {
  GgufMetadata metadata = UsingTwo("olmoe");
  metadata.Set("olmoe.expert_feed_forward_length", GgufValue::U32(32));
  ASSERT_TRUE(SetUsedExperts("f.gguf", 4, metadata));
  EXPECT_THAT(metadata.Uint("olmoe.expert_used_count"), Optional(4u));
  EXPECT_THAT(metadata.Uint("olmoe.expert_feed_forward_length"), Optional(32u));
}

TEST(UsedExperts, LeavesLayersWithoutExpertsAtZero) {
  GgufMetadata metadata = UsingTwo("deepseek2");
  metadata.Set("deepseek2.expert_used_count", GgufValue::U32s(std::vector<uint32_t>{0, 2, 2}));
  metadata.Set("deepseek2.expert_feed_forward_length", GgufValue::U32(32));
  ASSERT_TRUE(SetUsedExperts("f.gguf", 3, metadata));
  EXPECT_EQ(metadata.Find("deepseek2.expert_used_count")->AsUints(),
            (std::vector<uint64_t>{0, 3, 3}));
}

// llama.cpp would divide the width of the dense layers by the new number.
TEST(UsedExperts, WritesTheWidthThatLlamaCppWouldDeriveFromTheCount) {
  GgufMetadata metadata = UsingTwo("qwen2moe");
  metadata.Set("qwen2moe.feed_forward_length", GgufValue::U32(64));
  ASSERT_TRUE(SetUsedExperts("f.gguf", 4, metadata));
  EXPECT_THAT(metadata.Uint("qwen2moe.expert_feed_forward_length"), Optional(32u));
  GgufMetadata odd = UsingTwo("qwen2moe");
  odd.Set("qwen2moe.feed_forward_length", GgufValue::U32(63));
  const Status refused = SetUsedExperts("f.gguf", 4, odd);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_THAT(refused.error().message,
              HasSubstr("f.gguf: key \"qwen2moe.expert_feed_forward_length\": expected the width"));
}

TEST(UsedExperts, NamesAMissingCount) {
  GgufMetadata metadata;
  metadata.Set("general.architecture", GgufValue::String("olmoe"));
  const Status refused = SetUsedExperts("f.gguf", 4, metadata);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
  EXPECT_THAT(refused.error().message,
              HasSubstr("key \"olmoe.expert_used_count\": expected a number or one per layer, "
                        "found none"));
}

}  // namespace

}  // namespace moepack
