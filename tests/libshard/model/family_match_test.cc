#include "libshard/model/family_match.h"

#include <gtest/gtest.h>

#include <chrono>

#include "libshard/base/text/text.h"
#include "libshard/model/family.h"

namespace moepack {
namespace {

Family TestFamily() {
  Family family;
  family.name = "test";
  family.prefixes = {"model.", "model.text."};
  family.rules = {
      {.pattern = "layers.{L}.mlp.experts.{E}.up_proj.{W}", .part = Part::kExpert, .role = "up"},
      {.pattern = "layers.{L}.mlp.experts.up_proj.{W}",
       .part = Part::kExpert,
       .role = "up",
       .expert_axis = 0},
      {.pattern = "layers.{L}.mlp.experts.up_proj_{W}",
       .part = Part::kExpert,
       .role = "up",
       .expert_axis = 0},
      {.pattern = "mtp.{M}.router.weight",
       .part = Part::kRouter,
       .role = "router",
       .expert_axis = -1},
      {.pattern = "layers.{L}.{*}norm.{W}", .role = "norm"},
      {.pattern = "layers.{L}.attn.{**}", .role = "attention"},
      {.pattern = "vision_{**}", .role = "vision"},
      {.pattern = "tower.{N}.{N}.x", .role = "vision"},
  };
  return family;
}

class FamilyMatch : public ::testing::Test {
 protected:
  Family family_ = TestFamily();
  FamilyMatcher matcher_{family_, 4};
};

TEST_F(FamilyMatch, ReadsLayerExpertAndLeafFromAName) {
  const TensorClass found = matcher_.Classify("model.layers.3.mlp.experts.17.up_proj.weight_scale");
  ASSERT_EQ(found.rule, &family_.rules[0]);
  EXPECT_EQ(found.layer, 3);
  EXPECT_EQ(found.expert, 17);
  EXPECT_EQ(found.leaf, "weight_scale");
  EXPECT_FALSE(found.mtp);
}

TEST_F(FamilyMatch, ReadsTheNumbersOfEachNameAlthoughTheShapeIsRemembered) {
  for (const uint32_t expert : {0u, 5u, 100u}) {
    const TensorClass found =
        matcher_.Classify(Cat("layers.2.mlp.experts.", expert, ".up_proj.weight"));
    ASSERT_NE(found.rule, nullptr);
    EXPECT_EQ(found.expert, expert);
  }
}

TEST_F(FamilyMatch, RemovesTheLongestPrefix) {
  EXPECT_NE(matcher_.Classify("model.text.layers.0.attn.q").rule, nullptr);
  EXPECT_NE(matcher_.Classify("model.layers.0.attn.q").rule, nullptr);
  EXPECT_NE(matcher_.Classify("layers.0.attn.q").rule, nullptr);
  EXPECT_EQ(matcher_.Classify("text.layers.0.attn.q").rule, nullptr);
}

TEST_F(FamilyMatch, LetsALeafBeAbsentAtTheEnd) {
  const TensorClass found = matcher_.Classify("layers.0.mlp.experts.up_proj");
  ASSERT_EQ(found.rule, &family_.rules[1]);
  EXPECT_EQ(found.leaf, "");
}

TEST_F(FamilyMatch, FindsALeafAfterAnUnderscore) {
  const TensorClass found = matcher_.Classify("layers.0.mlp.experts.up_proj_blocks");
  ASSERT_EQ(found.rule, &family_.rules[2]);
  EXPECT_EQ(found.leaf, "blocks");
}

TEST_F(FamilyMatch, RefusesALeafThatIsNotInTheList) {
  EXPECT_EQ(matcher_.Classify("layers.0.mlp.experts.1.up_proj.magic").rule, nullptr);
  EXPECT_EQ(matcher_.Classify("layers.0.mlp.experts.up_proj_magic").rule, nullptr);
}

TEST_F(FamilyMatch, FindsTheLeafOfRowsThatEndInAWildcard) {
  EXPECT_EQ(matcher_.Classify("layers.0.attn.q_proj.weight_scale_inv").leaf, "weight_scale_inv");
  EXPECT_EQ(matcher_.Classify("layers.0.attn.sinks").leaf, "");
}

TEST_F(FamilyMatch, PutsMtpBlocksAfterTheDecoderLayers) {
  const TensorClass found = matcher_.Classify("mtp.1.router.weight");
  ASSERT_NE(found.rule, nullptr);
  EXPECT_EQ(found.layer, 5);
  EXPECT_TRUE(found.mtp);
  EXPECT_EQ(found.rule->expert_axis, -1);
}

TEST_F(FamilyMatch, CallsLayersBeyondTheDecoderMtp) {
  EXPECT_FALSE(matcher_.Classify("layers.3.attn.q").mtp);
  EXPECT_TRUE(matcher_.Classify("layers.4.attn.q").mtp);
}

TEST_F(FamilyMatch, DoesNotGuessMtpWithoutALayerCount) {
  const TensorClass unknown = FamilyMatcher(family_, 0).Classify("layers.92.attn.q");
  ASSERT_NE(unknown.rule, nullptr);
  EXPECT_EQ(unknown.layer, 92);
  EXPECT_FALSE(unknown.mtp);
  EXPECT_TRUE(FamilyMatcher(family_, 92).Classify("layers.92.attn.q").mtp);
}

TEST_F(FamilyMatch, KeepsAWildcardInsideItsComponent) {
  EXPECT_NE(matcher_.Classify("layers.0.input_layernorm.weight").rule, nullptr);
  EXPECT_NE(matcher_.Classify("layers.0.norm.weight").rule, nullptr);
  EXPECT_EQ(matcher_.Classify("layers.0.a.norm.weight").rule, nullptr);
}

TEST_F(FamilyMatch, NeedsAtLeastOneCharacterAfterThePrefix) {
  EXPECT_EQ(matcher_.Classify("layers.0.attn").rule, nullptr);
  EXPECT_EQ(matcher_.Classify("vision_").rule, nullptr);
  EXPECT_NE(matcher_.Classify("vision_tower.layers.3.mlp.experts.1.w").rule, nullptr);
  EXPECT_NE(matcher_.Classify("vision_x").rule, nullptr);
}

TEST_F(FamilyMatch, DoesNotMistakeTowerNumbersForLayers) {
  const TensorClass found = matcher_.Classify("tower.7.8.x");
  ASSERT_NE(found.rule, nullptr);
  EXPECT_FALSE(found.layer);
  EXPECT_FALSE(found.mtp);
}

TEST_F(FamilyMatch, RefusesNumbersThatAreNotAnIndex) {
  EXPECT_EQ(matcher_.Classify("layers.0.mlp.experts.07.up_proj.weight").rule, nullptr);
  EXPECT_EQ(matcher_.Classify("layers.99999999999.attn.q").rule, nullptr);
  EXPECT_EQ(matcher_.Classify("layers.0.mlp.experts.-1.up_proj.weight").rule, nullptr);
  EXPECT_EQ(matcher_.Classify("layers.#.attn.q").rule, nullptr);
  EXPECT_EQ(matcher_.Classify("").rule, nullptr);
}

TEST_F(FamilyMatch, ClassifiesAHundredThousandNamesQuickly) {
  std::vector<std::string> names;
  for (int layer = 0; layer < 100; ++layer) {
    for (int expert = 0; expert < 1000; ++expert) {
      names.push_back(Cat("model.layers.", layer, ".mlp.experts.", expert, ".up_proj.weight"));
    }
  }
  const auto start = std::chrono::steady_clock::now();
  size_t matched = 0;
  for (const std::string& name : names) matched += matcher_.Classify(name).rule != nullptr;
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(matched, names.size());
  // About 20 ms on one core at -O2; the limit only catches a change of complexity, even under
  // sanitizers.
  EXPECT_LT(time.count(), 1000);
  RecordProperty("milliseconds", Cat(time.count()));
}

TEST(UseOfLeaf, DistinguishesWeightsFromTheirCompanions) {
  EXPECT_EQ(UseOfLeaf("weight"), LeafUse::kValues);
  EXPECT_EQ(UseOfLeaf(""), LeafUse::kValues);
  EXPECT_EQ(UseOfLeaf("bias"), LeafUse::kValues);
  EXPECT_EQ(UseOfLeaf("biases"), LeafUse::kCompanion);
  EXPECT_EQ(UseOfLeaf("weight_packed"), LeafUse::kPacked);
  EXPECT_EQ(UseOfLeaf("blocks"), LeafUse::kPacked);
  EXPECT_EQ(UseOfLeaf("weight_scale_inv"), LeafUse::kCompanion);
}

TEST(PartName, NamesEveryPart) {
  EXPECT_EQ(PartName(Part::kTrunk), "trunk");
  EXPECT_EQ(PartName(Part::kRouter), "router");
  EXPECT_EQ(PartName(Part::kShared), "shared");
  EXPECT_EQ(PartName(Part::kExpert), "expert");
}

TEST(RuleProblem, FindsTheProblemOfARow) {
  const auto problem = [](TensorRule rule) { return RuleProblem(rule); };
  EXPECT_EQ(problem({.pattern = "a.{L}.b"}), "");
  EXPECT_EQ(problem({.pattern = "a.{X}.b"}), "an unknown {} token");
  EXPECT_EQ(problem({.pattern = "a.{L.b"}), "an unknown {} token");
  EXPECT_EQ(problem({.pattern = "a.L}.b"}), "an unknown {} token");
  EXPECT_EQ(problem({.pattern = ""}), "an empty component");
  EXPECT_EQ(problem({.pattern = "a..b"}), "an empty component");
  EXPECT_EQ(problem({.pattern = "a.3.b"}), "a literal number (write {N})");
  EXPECT_EQ(problem({.pattern = "a{*}b{*}"}), "more than one {} in one component");
  EXPECT_EQ(problem({.pattern = "{**}.b"}), "{**} is not at the end");
  EXPECT_EQ(problem({.pattern = "a.{W}.b"}), "{W} is not at the end");
  EXPECT_EQ(problem({.pattern = "a{L}"}), "text beside a number token");
  EXPECT_EQ(problem({.pattern = "{L}.{M}"}), "more than one layer or expert number");
  EXPECT_EQ(problem({.pattern = "{L}.{E}", .part = Part::kExpert, .expert_axis = 0}),
            "both {E} and an expert axis");
  EXPECT_EQ(problem({.pattern = "{L}.{E}"}), "{E} in a row that is not of part expert");
  EXPECT_EQ(problem({.pattern = "{L}.x", .part = Part::kExpert}), "an expert without {E} or axis");
  EXPECT_EQ(problem({.pattern = "x", .part = Part::kExpert, .expert_axis = 0}),
            "experts without {L}");
  EXPECT_EQ(problem({.pattern = "{L}.x", .folded = true}), "a folded axis without an expert axis");
}

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
