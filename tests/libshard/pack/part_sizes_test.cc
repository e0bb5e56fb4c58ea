#include "libshard/pack/part_sizes.h"

#include <gmock/gmock.h>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/recipe/quantize.h"

namespace moepack {
namespace {

using testing::HasSubstr;

Result<Plan> PlanOfGroups(const MoeModel& model, uint32_t groups, bool uniform) {
  PlanOptions options;
  options.groups = groups;
  options.uniform = uniform;
  return MakePlan(model, options);
}

// The sizes of the files themselves, as a node gets them.
PartSizes SizesOfFiles(const std::vector<OutputFile>& files, size_t groups) {
  PartSizes sizes;
  sizes.groups.resize(groups);
  for (const OutputFile& file : files) {
    if (file.role == Role::kHead || file.role == Role::kTrunk) sizes.trunk += file.size;
    if (file.group) sizes.groups[*file.group] += file.size;
  }
  return sizes;
}

void ExpectEqual(const PartSizes& sizes, const Result<std::vector<OutputFile>>& files) {
  ASSERT_TRUE(files) << files.error().message;
  const PartSizes expected = SizesOfFiles(*files, sizes.groups.size());
  EXPECT_GT(expected.trunk, 0u);
  EXPECT_EQ(sizes.trunk, expected.trunk);
  EXPECT_EQ(sizes.groups, expected.groups);
}

class SizedLayout : public testing::TestWithParam<std::string> {
 protected:
  MoeModel Model() const {
    const fixtures::Options options = {.hidden = 256, .ff = 256};
    EXPECT_TRUE(fixtures::MakeCheckpoint(GetParam(), temp_.path() / "m", options));
    auto model = MoeModel::Open(temp_.path() / "m");
    EXPECT_TRUE(model) << model.error().message;
    return *std::move(model);
  }

 private:
  fixtures::TempDir temp_;
};

TEST_P(SizedLayout, PredictsTheSizesOfItsBundles) {
  const MoeModel model = Model();
  const SafetensorsSizes sizes(model);
  for (const bool uniform : {true, false}) {
    for (const uint32_t groups : {1u, 2u, 3u}) {
      const auto plan = PlanOfGroups(model, groups, uniform);
      ASSERT_TRUE(plan || groups == 3) << plan.error().message;
      if (!plan) continue;  // too few experts
      const auto parts = sizes.Of(*plan);
      const auto files = SliceSafetensors(model, *plan, {});
      // Some experts are not whole bytes, in both cases.
      ASSERT_EQ(parts.has_value(), files.has_value());
      if (!parts) {
        EXPECT_EQ(parts.error().message, files.error().message);
        continue;
      }
      SCOPED_TRACE(groups);
      ExpectEqual(*parts, files);
    }
  }
}

TEST_P(SizedLayout, PredictsTheSizesOfItsFilesForEveryRecipe) {
  const MoeModel model = Model();
  QuantizeOptions quantize;
  if (!ToGguf(model, quantize.convert)) return;  // no GGUF form, no files
  for (const char* recipe : {"Q8_0", "Q4_K_M", "exact"}) {
    quantize.recipe.recipe = recipe;
    const auto typed = PrepareGguf(model, quantize);
    if (!typed) {  // MXFP4, for example, is not converted to another type
      EXPECT_NE(quantize.recipe.recipe, "exact") << typed.error().message;
      continue;
    }
    for (const uint64_t alignment : {32u, 4096u}) {
      const GgufSlicing slicing{typed->model, model.Version(""), {}, alignment};
      const auto sizes = GgufSizes::Make(slicing);
      ASSERT_TRUE(sizes) << sizes.error().message;
      for (const bool uniform : {true, false}) {
        SCOPED_TRACE(recipe);
        const auto groups = PlanOfGroups(model, 2, uniform);
        ASSERT_TRUE(groups) << groups.error().message;
        const Plan plan = PlanFor(typed->model, *groups);
        ExpectEqual(sizes->Of(plan), SliceGguf(slicing, plan, {}));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, SizedLayout, testing::ValuesIn(fixtures::Layouts()),
                         [](const auto& layout) {
                           std::string name = layout.param;
                           for (char& c : name) c = std::isalnum(c) != 0 ? c : '_';
                           return name;
                         });

TEST(GgufSizes, NameATensorThatCannotBeWritten) {
  GgufModel model;
  model.metadata.Set("general.architecture", GgufValue::String("qwen3moe"));
  GgufTensor tensor;
  tensor.name = "output.weight";
  tensor.shape = {4, 33};
  tensor.stored = quant::FindFormat("bf16");
  tensor.type = quant::FindFormat("q8_0");
  model.tensors.push_back(tensor);
  const GgufSlicing slicing{model, "0123456789abcdef", {}};
  const auto sizes = GgufSizes::Make(slicing);
  ASSERT_FALSE(sizes);
  EXPECT_EQ(sizes.error().code, Code::kUnsupported);
  EXPECT_THAT(sizes.error().message,
              HasSubstr("\"output.weight\": bf16 to q8_0: expected rows of a "
                        "multiple of 32 values, found 33"));
}

}  // namespace
}  // namespace moepack
