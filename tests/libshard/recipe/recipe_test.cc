#include "libshard/recipe/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/recipe/recipe_list.h"
#include "tests/libshard/recipe/recipe_model.h"

namespace moepack {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::IsNull;

RecipeOptions Named(const std::string& recipe) {
  RecipeOptions options;
  options.recipe = recipe;
  return options;
}
RecipeOptions Pure(const std::string& type) {
  RecipeOptions options;
  options.pure = type;
  return options;
}

GgufModel RecipeApplied(const RecipeOptions& options, GgufModel model = RecipeModel()) {
  const auto applied = ApplyRecipe(options, model);
  EXPECT_TRUE(applied) << applied.error().message;
  return model;
}

Error RecipeErrorOf(const RecipeOptions& options, GgufModel model = RecipeModel()) {
  const auto applied = ApplyRecipe(options, model);
  EXPECT_FALSE(applied);
  return applied ? Error{Code::kIo, ""} : applied.error();
}

TEST(Recipe, NotesFileTypeAndQuantizationVersion) {
  const GgufModel model = RecipeApplied(Named("Q5_K_S"));
  EXPECT_EQ(*model.metadata.Find("general.file_type"), GgufValue::U32(16));
  EXPECT_EQ(*model.metadata.Find("general.quantization_version"), GgufValue::U32(2));
}

TEST(Recipe, GivesEveryMatrixAFloatingPointType) {
  for (const auto& [recipe, type] : {std::pair{"F16", "f16"}, {"BF16", "bf16"}, {"F32", "f32"}}) {
    const GgufModel model = RecipeApplied(Named(recipe), RecipeModel({.stored = "f16"}));
    EXPECT_EQ(TypeOf(model, "token_embd.weight"), type);
    EXPECT_EQ(TypeOf(model, "blk.3.ffn_down_exps.weight"), type);
    EXPECT_EQ(TypeOf(model, "blk.3.attn_norm.weight"), "f32");
  }
}

TEST(Recipe, KeepsTensorsOnTheListOfUnchangedOnes) {
  GgufModel model = RecipeModel();
  model.tensors.push_back(RecipeTensor("blk.0.indexer.k_proj.weight", {64, 64}));
  model.tensors.push_back(RecipeTensor("blk.0.attn_q.scale", {64, 64}, "f32"));
  for (const char* recipe : {"Q4_K_M", "F16"}) {
    const GgufModel applied = RecipeApplied(Named(recipe), model);
    EXPECT_EQ(TypeOf(applied, "blk.0.indexer.k_proj.weight"), "bf16");
    EXPECT_EQ(TypeOf(applied, "blk.0.attn_q.scale"), "f32");
  }
}

TEST(Recipe, ReportsWhatFallsBackAndWhy) {
  GgufModel model = RecipeModel({.layers = 1, .expert_width = 96});
  const auto applied = ApplyRecipe(Named("Q4_K_M"), model);
  ASSERT_TRUE(applied);
  ASSERT_EQ(applied->fallbacks.size(), 1u);
  const RecipeResult::Fallback& fallback = applied->fallbacks[0];
  EXPECT_EQ(fallback.tensor, "blk.0.ffn_down_exps.weight");
  EXPECT_EQ(fallback.wanted, "q6_K");
  EXPECT_EQ(fallback.got, "q8_0");
  EXPECT_EQ(fallback.reason, "rows of 96 values, q6_K needs a multiple of 256");
  EXPECT_EQ(TypeOf(model, "blk.0.ffn_down_exps.weight"), "q8_0");
}

TEST(Recipe, TakesF16ForRowsThatFitNoBlock) {
  GgufModel model = RecipeModel({.layers = 1, .expert_width = 100});
  const auto applied = ApplyRecipe(Named("Q8_0"), model);
  ASSERT_TRUE(applied);
  EXPECT_EQ(TypeOf(model, "blk.0.ffn_down_exps.weight"), "f16");
  EXPECT_EQ(applied->fallbacks.at(0).reason, "rows of 100 values, q8_0 needs a multiple of 32");
}

TEST(Recipe, GivesEveryMatrixOneTypeWhenPure) {
  GgufModel model = RecipeModel({.layers = 2, .expert_width = 96});
  const auto applied = ApplyRecipe(Pure("q4_k"), model);
  ASSERT_TRUE(applied);
  for (const char* name : {"token_embd.weight", "output.weight", "blk.0.attn_v.weight",
                           "blk.1.ffn_gate_exps.weight"}) {
    EXPECT_EQ(TypeOf(model, name), "q4_K") << name;
  }
  EXPECT_EQ(TypeOf(model, "blk.1.ffn_down_exps.weight"), "q5_0");
  EXPECT_EQ(TypeOf(model, "blk.1.ffn_gate_inp.weight"), "f32");
  EXPECT_EQ(model.metadata.Uint("general.file_type"), 15u);
  EXPECT_EQ(applied->fallbacks.size(), 2u);
}

TEST(Recipe, LetsOverridesWinAndStillFallsBack) {
  RecipeOptions options = Named("balanced");
  options.tensor_types = {"blk\\.0\\.ffn_down_exps=q6_K"};
  options.experts_type = "q3_K";
  options.output_type = "q5_K";
  const GgufModel model = RecipeApplied(options, RecipeModel({.layers = 2, .expert_width = 96}));
  EXPECT_EQ(TypeOf(model, "blk.0.ffn_down_exps.weight"), "q8_0");
  EXPECT_EQ(TypeOf(model, "blk.1.ffn_down_exps.weight"), "q4_0");
  EXPECT_EQ(TypeOf(model, "blk.1.ffn_up_exps.weight"), "q3_K");
  EXPECT_EQ(TypeOf(model, "output.weight"), "q5_K");
  EXPECT_EQ(TypeOf(model, "blk.0.attn_q.weight"), "q8_0");
}

TEST(Recipe, DoesNotCountTensorsThatAnOverrideDecides) {
  RecipeOptions options = Named("Q3_K_M");
  options.tensor_types = {"blk\\.0\\.attn_v=q8_0"};
  const GgufModel model = RecipeApplied(options);
  EXPECT_EQ(TypeOf(model, "blk.0.attn_v.weight"), "q8_0");
  EXPECT_EQ(TypeOf(model, "blk.1.attn_v.weight"), "q5_K");
  EXPECT_EQ(TypeOf(model, "blk.2.attn_v.weight"), "q5_K");
  EXPECT_EQ(TypeOf(model, "blk.3.attn_v.weight"), "q4_K");
}

TEST(Recipe, DecidesTheTypeOfTheOverlay) {
  RecipeOptions options = Named("Q4_K_M");
  options.overlay_type = "q8_0";
  options.tensor_types = {"blk\\.1\\.ffn_up_exps=q6_K"};
  GgufModel model = RecipeModel({.layers = 2, .expert_width = 100});
  const auto applied = ApplyRecipe(options, model);
  ASSERT_TRUE(applied);
  ASSERT_EQ(applied->overlay_types.size(), model.tensors.size());
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const std::string& name = model.tensors[i].name;
    const quant::Format* type = applied->overlay_types[i];
    if (name == "blk.1.ffn_up_exps.weight" || model.tensors[i].part != Part::kExpert) {
      EXPECT_EQ(type, nullptr) << name;
    } else if (name.find("ffn_down") != std::string::npos) {
      EXPECT_EQ(type->name, "f16") << name;
    } else {
      EXPECT_EQ(type->name, "q8_0") << name;
      EXPECT_EQ(model.tensors[i].type->name, "q4_K") << name;
    }
  }
}

TEST(Recipe, HasNoOverlayTypesWhenNoneIsAskedFor) {
  GgufModel model = RecipeModel();
  const auto applied = ApplyRecipe(Named("Q8_0"), model);
  ASSERT_TRUE(applied);
  EXPECT_EQ(applied->overlay_types.size(), model.tensors.size());
  EXPECT_THAT(applied->overlay_types, Each(IsNull()));
}

TEST(Recipe, RefusesToQuantizeTwiceUnlessAllowed) {
  RecipeOptions options = Named("Q4_K_M");
  const Error error = RecipeErrorOf(options, RecipeModel({.stored = "q8_0"}));
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_EQ(error.message,
            "tensor \"token_embd.weight\": expected F32, F16 or BF16 to make q4_K of, found q8_0");
  EXPECT_THAT(error.hint, HasSubstr("--allow-requantize"));
  options.allow_requantize = true;
  const GgufModel model = RecipeApplied(options, RecipeModel({.stored = "q8_0"}));
  EXPECT_EQ(TypeOf(model, "token_embd.weight"), "q4_K");
}

TEST(Recipe, CopiesTensorsThatAlreadyHaveTheirType) {
  const GgufModel model = RecipeApplied(Named("Q8_0"), RecipeModel({.stored = "q8_0"}));
  EXPECT_EQ(TypeOf(model, "blk.0.attn_q.weight"), "q8_0");
}

TEST(Recipe, KeepsMxfp4InFilesOfFloatingPointTypeUntilRequantizingIsAllowed) {
  GgufModel source = RecipeModel();
  for (GgufTensor& tensor : source.tensors) {
    if (tensor.part == Part::kExpert) tensor.stored = quant::FindFormat("mxfp4");
  }
  RecipeOptions options = Named("BF16");
  EXPECT_EQ(TypeOf(RecipeApplied(options, source), "blk.0.ffn_up_exps.weight"), "mxfp4");
  EXPECT_EQ(TypeOf(RecipeApplied(Named("MXFP4_MOE"), source), "blk.0.ffn_up_exps.weight"), "mxfp4");
  EXPECT_THAT(RecipeErrorOf(Named("Q4_K_M"), source).message, HasSubstr("found mxfp4"));
  options.allow_requantize = true;
  EXPECT_EQ(TypeOf(RecipeApplied(options, source), "blk.0.ffn_up_exps.weight"), "bf16");
}

TEST(Recipe, RefusesAStoredTypeItCannotDecode) {
  GgufModel model = RecipeModel({.layers = 1});
  model.tensors.back().stored = quant::FindFormat("i32");
  const Error error = RecipeErrorOf(Named("Q4_K_M"), model);
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_EQ(error.message,
            "tensor \"blk.0.ffn_down_exps.weight\": expected a type that this version can decode, "
            "found i32");
}

TEST(Recipe, AcceptsARecipeOrAPureTypeButNotBoth) {
  RecipeOptions both = Named("Q4_K_M");
  both.pure = "q8_0";
  EXPECT_EQ(RecipeErrorOf(both).code, Code::kInvalidArgument);
  EXPECT_THAT(RecipeErrorOf(both).message,
              HasSubstr("--pure \"q8_0\": expected no recipe beside it"));
  EXPECT_EQ(RecipeErrorOf({}).code, Code::kInvalidArgument);
  EXPECT_THAT(RecipeErrorOf({}).message, HasSubstr("recipe: expected one of Q2_K"));
  EXPECT_THAT(RecipeErrorOf(Pure("q1_0")).message, HasSubstr("--pure: type: expected one of f32"));
  EXPECT_EQ(RecipeErrorOf(Named("Q2_0")).code, Code::kUnsupported);
}

TEST(Recipe, RefusesOverridesThatChangeNothing) {
  RecipeOptions options = Named("Q4_K_M");
  options.tensor_types = {"ffn_dwon=q6_K"};
  EXPECT_EQ(RecipeErrorOf(options).code, Code::kInvalidArgument);
  EXPECT_THAT(RecipeErrorOf(options).message, HasSubstr("\"ffn_dwon=q6_K\""));

  GgufModel trunk = RecipeModel({.layers = 1});
  std::erase_if(trunk.tensors, [](const GgufTensor& t) { return t.part == Part::kExpert; });
  RecipeOptions experts = Named("Q4_K_M");
  experts.experts_type = "q8_0";
  EXPECT_THAT(RecipeErrorOf(experts, trunk).message,
              HasSubstr("--experts-type: expected a tensor"));
  RecipeOptions overlay = Named("Q4_K_M");
  overlay.overlay_type = "q8_0";
  EXPECT_THAT(RecipeErrorOf(overlay, trunk).message,
              HasSubstr("--overlay-type: expected an expert"));
  overlay.overlay_type = "q9";
  EXPECT_THAT(RecipeErrorOf(overlay).message, HasSubstr("--overlay-type: type: expected one of"));
}

TEST(Recipe, RefusesTypesOfFewBitsWithoutImportanceAsLlamaQuantizeDoes) {
  for (const char* recipe :
       {"IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ3_XXS", "IQ3_XS", "Q2_K_S"}) {
    const Error error = RecipeErrorOf(Named(recipe));
    EXPECT_EQ(error.code, Code::kInvalidArgument) << recipe;
    EXPECT_THAT(error.message,
                HasSubstr(Cat("recipe ", recipe, ": expected an importance matrix")));
    EXPECT_THAT(error.hint, HasSubstr("--imatrix FILE"));
  }
  EXPECT_EQ(
      RecipeErrorOf(Named("IQ2_XXS")).message,
      "tensor \"blk.0.attn_q.weight\": recipe IQ2_XXS: expected an importance matrix with data "
      "for it to make iq2_xxs of it, found none");
  for (const char* recipe : {"IQ3_S", "IQ3_M"}) RecipeApplied(Named(recipe));
}

TEST(Recipe, GivesTheTypesOfAnImportanceMatrixWhereACalibrationMeasuresOne) {
  RecipeOptions options = Named("IQ3_XXS");
  options.measured_later = true;
  GgufModel given = RecipeModel();
  GiveImportance(given);
  const GgufModel with = RecipeApplied(Named("IQ3_XXS"), given);
  const GgufModel later = RecipeApplied(options);
  for (const GgufTensor& tensor : later.tensors)
    EXPECT_EQ(TypeOf(later, tensor.name), TypeOf(with, tensor.name)) << tensor.name;
}

TEST(Recipe, RefusesAnExpertMatrixThatTheImportanceMatrixLacks) {
  GgufModel model = RecipeModel();
  GiveImportance(model);
  for (GgufTensor& tensor : model.tensors) {
    if (tensor.name == "blk.7.ffn_up_exps.weight") tensor.importance = nullptr;
  }
  EXPECT_THAT(RecipeErrorOf(Named("IQ2_M"), model).message,
              HasSubstr("tensor \"blk.7.ffn_up_exps.weight\": recipe IQ2_M: expected"));
}

TEST(Recipe, SaysWhatToDoAboutMatricesThatAnImportanceMatrixLacks) {
  const auto hint = [](const RecipeOptions& options, const std::string& lacking) {
    GgufModel model = RecipeModel();
    const auto importance = std::make_shared<const Importance>();
    for (GgufTensor& tensor : model.tensors) {
      if (tensor.name != lacking) tensor.importance = importance;
    }
    const Error error = RecipeErrorOf(options, model);
    EXPECT_THAT(error.message, HasSubstr(Quoted(lacking)));
    return error.hint;
  };
  EXPECT_THAT(hint(Pure("iq2_xxs"), "token_embd.weight"), HasSubstr("--token-embedding-type"));
  EXPECT_THAT(hint(Pure("iq2_xxs"), "output.weight"), HasSubstr("--output-tensor-type"));
  EXPECT_EQ(hint(Named("IQ2_XXS"), "blk.7.ffn_up_exps.weight"),
            "make the importance matrix from more text, or choose a type of more bits");
}

TEST(Recipe, NeedsNoImportanceWhereATensorKeepsItsTypeOrItsRowsFallBack) {
  GgufModel stored = RecipeModel({.layers = 1, .stored = "iq2_s"});
  RecipeApplied(Pure("iq2_s"), stored);
  const GgufModel narrow =
      RecipeApplied(Pure("iq2_s"), RecipeModel({.layers = 1, .width = 96, .expert_width = 96}));
  EXPECT_EQ(TypeOf(narrow, "blk.0.attn_q.weight"), "iq4_nl");
}

TEST(Recipe, RefusesAnOverlayOfFewBitsWithoutImportance) {
  RecipeOptions options = Named("Q4_K_M");
  options.overlay_type = "iq3_xxs";
  EXPECT_THAT(RecipeErrorOf(options).message,
              HasSubstr("--overlay-type: expected an importance matrix"));
}

GgufModel RecipeProfileApplied(const std::string& profile, GgufModel model = RecipeModel()) {
  RecipeOptions options;
  options.recipe = profile;
  const auto applied = ApplyRecipe(options, model);
  EXPECT_TRUE(applied) << applied.error().message;
  return model;
}

TEST(RecipeProfile, GivesExpertsTheirOwnTypes) {
  const GgufModel high = RecipeProfileApplied("high"), balanced = RecipeProfileApplied("balanced");
  EXPECT_EQ(TypeOf(high, "blk.5.ffn_gate_exps.weight"), "q5_K");
  EXPECT_EQ(TypeOf(high, "blk.5.ffn_up_exps.weight"), "q5_K");
  EXPECT_EQ(TypeOf(high, "blk.5.ffn_down_exps.weight"), "q6_K");
  EXPECT_EQ(TypeOf(balanced, "blk.5.ffn_up_exps.weight"), "q4_K");
  EXPECT_EQ(TypeOf(balanced, "blk.31.ffn_down_exps.weight"), "q5_K");
  for (const GgufModel* model : {&high, &balanced}) {
    for (const char* name : {"token_embd.weight", "output.weight", "blk.5.attn_v.weight"}) {
      EXPECT_EQ(TypeOf(*model, name), "q8_0") << name;
    }
    EXPECT_EQ(TypeOf(*model, "blk.5.ffn_gate_inp.weight"), "f32");
    EXPECT_EQ(TypeOf(*model, "blk.5.attn_norm.weight"), "f32");
  }
}

TEST(RecipeProfile, UsesSmallerTypesForACompactModel) {
  const GgufModel model = RecipeProfileApplied("compact");
  EXPECT_EQ(TypeOf(model, "blk.0.ffn_gate_exps.weight"), "q3_K");
  EXPECT_EQ(TypeOf(model, "blk.0.ffn_down_exps.weight"), "iq4_xs");
  EXPECT_EQ(TypeOf(model, "token_embd.weight"), "q6_K");
  EXPECT_EQ(TypeOf(model, "output.weight"), "q8_0");
  EXPECT_EQ(TypeOf(model, "blk.0.attn_q.weight"), "q8_0");
}

TEST(RecipeProfile, CountsSharedExpertsAsTrunkAndFusedMatricesAsGate) {
  GgufModel model = RecipeModel();
  model.tensors.push_back(RecipeTensor("blk.0.ffn_down_shexp.weight", {512, 256}));
  model.tensors.back().part = Part::kShared;
  model.tensors.push_back(RecipeTensor("blk.1.ffn_gate_up_exps.weight", {16, 512, 512}));
  model = RecipeProfileApplied("balanced", model);
  EXPECT_EQ(TypeOf(model, "blk.0.ffn_down_shexp.weight"), "q8_0");
  EXPECT_EQ(TypeOf(model, "blk.1.ffn_gate_up_exps.weight"), "q4_K");
}

TEST(RecipeProfile, KeepsEveryTypeOfTheSourceForAnExactModel) {
  GgufModel source = RecipeModel({.stored = "q4_K"});
  source.metadata.Set("general.file_type", GgufValue::U32(14));
  const GgufModel kept = RecipeProfileApplied("exact", source);
  EXPECT_EQ(TypeOf(kept, "blk.0.ffn_down_exps.weight"), "q4_K");
  EXPECT_EQ(TypeOf(kept, "blk.0.attn_norm.weight"), "f32");
  const GgufModel half = RecipeProfileApplied("exact", RecipeModel({.stored = "f16"}));
  EXPECT_EQ(TypeOf(half, "token_embd.weight"), "f16");
}

TEST(RecipeProfile, WritesTheFileTypeOfMostValues) {
  const auto file_type = [](const GgufModel& model) {
    return model.metadata.Uint("general.file_type");
  };
  EXPECT_EQ(file_type(RecipeProfileApplied("high")), 17u);
  EXPECT_EQ(file_type(RecipeProfileApplied("balanced")), 15u);
  EXPECT_EQ(file_type(RecipeProfileApplied("compact")), 12u);
  EXPECT_EQ(file_type(RecipeProfileApplied("exact")), 32u);
}

TEST(RecipeProfile, KeepsTheFileTypeOfAnUnchangedSource) {
  GgufModel model;
  model.metadata.Set("general.architecture", GgufValue::String("qwen3moe"));
  model.metadata.Set("general.file_type", GgufValue::U32(14));
  model.tensors.push_back(RecipeTensor("blk.0.attn_q.weight", {256, 256}, "q4_K"));
  EXPECT_EQ(RecipeProfileApplied("exact", model).metadata.Uint("general.file_type"), 14u);
}

TEST(RecipeProfile, BelongsToItsRecipe) {
  EXPECT_NE(FindRecipe("compact")->profile, nullptr);
  EXPECT_EQ(FindRecipe("Q4_K_M")->profile, nullptr);
}

}  // namespace

}  // namespace moepack
