#include "libshard/recipe/recipe_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/recipe/recipe_list.h"
#include "tests/libshard/recipe/recipe_model.h"

namespace moepack {
namespace {

using testing::HasSubstr;
using testing::Not;

bool Changes(const std::string& name, std::vector<uint64_t> shape = {64, 64}) {
  return MayChange(RecipeTensor(name, std::move(shape)));
}

TEST(RecipeTypes, ChangeWeightMatrices) {
  for (const char* name :
       {"token_embd.weight", "output.weight", "blk.0.attn_q.weight", "blk.0.ffn_gate_exps.weight",
        "blk.0.ffn_gate_shexp.weight", "blk.0.attn_k_b.weight", "blk.3.nextn.eh_proj.weight"}) {
    EXPECT_TRUE(Changes(name)) << name;
  }
}

TEST(RecipeTypes, LeaveVectorsAndOtherTensorsAlone) {
  EXPECT_FALSE(Changes("blk.0.attn_q.weight", {64}));
  EXPECT_FALSE(Changes("blk.0.ffn_gate_inp_shexp.weight", {1, 64}));
  EXPECT_TRUE(Changes("blk.0.ffn_gate_inp_shexp.weight", {2, 64}));
  EXPECT_FALSE(Changes("blk.0.ffn_gate_exps.bias"));
  EXPECT_FALSE(Changes("blk.0.ssm_a"));
}

TEST(RecipeTypes, LeaveTheListedMatricesAlone) {
  for (const char* name :
       {"blk.0.attn_norm.weight", "blk.0.ffn_gate_inp.weight", "blk.0.ssm_conv1d.weight",
        "blk.0.ffn_gate_tid2eid.weight", "position_embd.weight", "token_types.weight",
        "blk.0.time_mix_w1.weight", "blk.0.indexer.k_proj.weight", "blk.0.attn_rel_b.weight",
        "v.patch_embd.weight", "blk.0.altup_proj.weight", "blk.0.shortconv.conv.weight"}) {
    EXPECT_FALSE(Changes(name)) << name;
  }
}

TEST(RecipeTypes, LeaveFixedTensorsAndLiteralsAtF32) {
  GgufTensor fixed = RecipeTensor("blk.0.x.weight", {64, 64});
  fixed.fixed = true;
  EXPECT_FALSE(MayChange(fixed));
  EXPECT_EQ(KeptType(fixed)->name, "f32");
  GgufTensor literal = RecipeTensor("rope_factors.weight", {64, 64});
  literal.literal = "bytes";
  EXPECT_FALSE(MayChange(literal));
  EXPECT_EQ(KeptType(literal)->name, "f32");
}

TEST(RecipeTypes, KeepWhatGgufHasAndTakeF32ForTheRest) {
  EXPECT_EQ(KeptType(RecipeTensor("a.weight", {4, 4}, "q5_1"))->name, "q5_1");
  EXPECT_EQ(KeptType(RecipeTensor("a.weight", {4, 4}, "f8_e4m3"))->name, "f32");
}

TEST(RecipeTypes, FallBackAsLlamaQuantizeDoes) {
  const auto fallback = [](const char* wanted, uint64_t row) {
    return std::string(FallbackFor(KnownType(wanted), row)->name);
  };
  EXPECT_EQ(fallback("q4_K", 512), "q4_K");
  EXPECT_EQ(fallback("iq4_xs", 96), "iq4_nl");
  for (const char* grid : {"iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s"}) {
    EXPECT_EQ(fallback(grid, 512), grid);
    EXPECT_EQ(fallback(grid, 96), "iq4_nl");
    EXPECT_EQ(fallback(grid, 100), "f16");
  }
  for (const char* ternary : {"tq1_0", "tq2_0"}) {
    EXPECT_EQ(fallback(ternary, 512), ternary);
    EXPECT_EQ(fallback(ternary, 96), "q4_0");
    EXPECT_EQ(fallback(ternary, 100), "f16");
  }
  EXPECT_EQ(fallback("nvfp4", 128), "nvfp4");
  EXPECT_EQ(fallback("nvfp4", 96), "f16");
  EXPECT_EQ(fallback("q2_K", 96), "q4_0");
  EXPECT_EQ(fallback("q3_K", 96), "q4_0");
  EXPECT_EQ(fallback("q4_K", 96), "q5_0");
  EXPECT_EQ(fallback("q5_K", 96), "q5_1");
  EXPECT_EQ(fallback("q6_K", 96), "q8_0");
  EXPECT_EQ(fallback("q6_K", 100), "f16");
  EXPECT_EQ(fallback("q8_0", 100), "f16");
  EXPECT_EQ(fallback("mxfp4", 100), "f16");
  EXPECT_EQ(fallback("bf16", 7), "bf16");
}

TEST(RecipeTypes, ReadNamesInAnyCase) {
  EXPECT_EQ(ParseTargetType("--pure", "Q4_k").value()->name, "q4_K");
  EXPECT_EQ(ParseTargetType("--pure", "IQ4_XS").value()->name, "iq4_xs");
}

TEST(RecipeTypes, RefuseTypesThatCannotBeWrittenWithTheListOfThoseThatCan) {
  for (const char* name : {"q1_0", "f8_e4m3", "i32", "nonsense", ""}) {
    const auto type = ParseTargetType("--trunk-type", name);
    ASSERT_FALSE(type) << name;
    EXPECT_EQ(type.error().code, Code::kInvalidArgument);
    EXPECT_THAT(type.error().message, HasSubstr("--trunk-type: type: expected one of f32, "));
    EXPECT_THAT(type.error().message, HasSubstr("mxfp4"));
    EXPECT_THAT(type.error().message, Not(HasSubstr("i32,")));
    EXPECT_THAT(type.error().message, HasSubstr("found " + Quoted(name)));
  }
}

TEST(RecipeTypes, NameTheProjectOfATypeThatIsNotHereAndTheClosestThatIs) {
  const auto type = ParseTargetType("--trunk-type", "IQ4_KS");
  ASSERT_FALSE(type);
  EXPECT_THAT(type.error().message, HasSubstr(", found \"IQ4_KS\", a type of ik_llama.cpp"));
  EXPECT_EQ(type.error().hint, "did you mean iq4_xs?");
  EXPECT_THAT(ParseTargetType("--trunk-type", "q4_0_4_4").error().message,
              HasSubstr("found \"q4_0_4_4\", which ggml no longer reads"));
}

TEST(RecipeTypes, HaveTheFileTypeOfLlamaCpp) {
  EXPECT_EQ(FileTypeOf(*KnownType("q4_K")), 15);
  EXPECT_EQ(FileTypeOf(*KnownType("q3_K")), 12);
  EXPECT_EQ(FileTypeOf(*KnownType("bf16")), 32);
  EXPECT_EQ(FileTypeOf(*KnownType("mxfp4")), 38);
  EXPECT_EQ(FileTypeOf(*KnownType("i32")), 0);
  EXPECT_EQ(FileTypeOf(*KnownType("iq3_s")), 26);
  EXPECT_EQ(FileTypeOf(*KnownType("iq1_m")), 31);
  EXPECT_EQ(FileTypeOf(*KnownType("tq1_0")), 36);
  EXPECT_EQ(FileTypeOf(*KnownType("nvfp4")), 39);
  EXPECT_EQ(FileTypeOf(*KnownType("iq2_s")), 29);
  EXPECT_EQ(FileTypeOf(*KnownType("iq2_xs")), 20);
}

TEST(RecipeTypes, OfVeryFewBitsNeedImportanceEvenOutsideEmbeddings) {
  const auto required = [](const char* type, bool outside) {
    return RequiresImportance(*KnownType(type), "", outside);
  };
  for (const char* type : {"iq1_s", "iq2_xxs", "iq2_xs"}) {
    EXPECT_TRUE(required(type, false)) << type;
    EXPECT_TRUE(required(type, true)) << type;
  }
  for (const char* type : {"iq1_m", "iq2_s", "iq3_xxs"}) {
    EXPECT_TRUE(required(type, false)) << type;
    EXPECT_FALSE(required(type, true)) << type;
  }
  for (const char* type : {"iq3_s", "q2_K", "iq4_xs"}) EXPECT_FALSE(required(type, false)) << type;
}

TEST(RecipeTypes, NeedImportanceInOneRecipeOnly) {
  const quant::Format& type = *KnownType("q2_K");
  EXPECT_TRUE(RequiresImportance(type, "Q2_K_S", false));
  EXPECT_FALSE(RequiresImportance(type, "Q2_K_S", true));
  EXPECT_FALSE(RequiresImportance(type, "Q2_K", false));
  EXPECT_FALSE(RequiresImportance(*KnownType("q4_K"), "Q2_K_S", false));
}

TypedGguf Typed(const RecipeOptions& recipe, bool imatrix) {
  TypedGguf typed;
  typed.model = RecipeModel();
  if (imatrix) {
    typed.imatrix.emplace();
    const auto importance = std::make_shared<Importance>();
    for (GgufTensor& tensor : typed.model.tensors) {
      if (tensor.name.find("attn_q.") != std::string::npos) tensor.importance = importance;
    }
  }
  auto applied = ApplyRecipe(recipe, typed.model);
  EXPECT_TRUE(applied) << applied.error().message;
  if (applied) typed.recipe = *std::move(applied);
  return typed;
}

TensorType Find(const std::vector<TensorType>& types, const std::string& name) {
  for (const TensorType& type : types) {
    if (type.name == name) return type;
  }
  ADD_FAILURE() << name;
  return {};
}

RecipeOptions TypeListOptions(const std::string& recipe, const std::string& overlay_type = "") {
  RecipeOptions options;
  options.recipe = recipe;
  options.overlay_type = overlay_type;
  return options;
}

TEST(TypeList, ShowsWhereTheImportanceMatrixHasNoData) {
  const auto types = ListTypes(Typed(TypeListOptions("Q4_K_M"), true));
  EXPECT_EQ(Find(types, "blk.0.attn_q.weight").importance, "used");
  EXPECT_EQ(Find(types, "blk.0.attn_k.weight").importance, "none");
  EXPECT_EQ(Find(types, "blk.0.attn_norm.weight").importance, "no need");
  EXPECT_EQ(
      Find(ListTypes(Typed(TypeListOptions("Q4_K_M"), false)), "blk.0.attn_k.weight").importance,
      "");
}

TEST(TypeList, NamesTheOverlayTypeIfItDiffers) {
  const auto types = ListTypes(Typed(TypeListOptions("Q4_K_M", "q8_0"), false));
  EXPECT_EQ(Find(types, "blk.0.ffn_up_exps.weight").overlay_type, "q8_0");
  EXPECT_EQ(Find(types, "blk.0.attn_q.weight").overlay_type, "");
}

TEST(TypeList, ListsFallbacksOfTheOverlayAndTheGroupsSeparately) {
  TypedGguf typed;
  typed.model = RecipeModel({.expert_width = 96});
  auto applied = ApplyRecipe(TypeListOptions("Q8_0", "q4_K"), typed.model);
  ASSERT_TRUE(applied) << applied.error().message;
  typed.recipe = *std::move(applied);
  const TensorType down = Find(ListTypes(typed), "blk.0.ffn_down_exps.weight");
  EXPECT_EQ(down.type, "q8_0");
  EXPECT_EQ(down.fallback, "");
  EXPECT_EQ(down.overlay_type, "q5_0");
}

}  // namespace

}  // namespace moepack
