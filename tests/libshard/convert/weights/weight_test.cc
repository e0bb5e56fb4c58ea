#include "libshard/convert/weights/weight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/temp_dir.h"
#include "tests/libshard/convert/weight_sample.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(StoredWeight, HoldsOnePartOfEachKind) {
  TensorEntry entry;
  StoredWeight stored("m");
  EXPECT_TRUE(stored.empty());
  EXPECT_TRUE(stored.Add("input_scale", entry))
      << "input_scale is accepted, but says nothing about the weight";
  EXPECT_TRUE(stored.empty());
  EXPECT_TRUE(stored.Add("weight_scale", entry));
  EXPECT_EQ(stored.main(), nullptr);
  EXPECT_TRUE(stored.Add("weight", entry));
  EXPECT_EQ(stored.main(), &entry);
  EXPECT_FALSE(stored.Add("weight", entry));
  EXPECT_EQ(stored.Find("qweight"), nullptr);
}

TEST(Weight, KeepsPlainNumbersAsRangesOfTheFile) {
  for (const char* dtype : {"F32", "F16", "BF16"}) {
    WeightSample sample;
    sample.Add("weight", dtype, {2, 3}, std::string(dtype[1] == '3' ? 24 : 12, '\0'));
    const auto weight = sample.Read();
    ASSERT_TRUE(weight) << weight.error().message;
    EXPECT_THAT(weight->shape, ElementsAre(2, 3));
    ASSERT_NE(weight->plain, nullptr);
    EXPECT_EQ(weight->plain, weight->main);
    EXPECT_EQ(weight->stored, weight->plain->format);
    EXPECT_EQ(weight->reader, nullptr);
  }
}

TEST(Weight, AcceptsFp8WithoutScalesInAnUnquantizedModel) {
  WeightSample sample;
  sample.Add("weight", "F8_E4M3", {1, 2}, {0x38, 0x40});
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_THAT(sample.Values(*weight), ElementsAre(1, 2));
  sample.quantization = R"({"quant_method": "fp8"})";
  EXPECT_THAT(sample.ErrorText(), HasSubstr("expected weight_scale_inv"));
}

TEST(Weight, RefusesNumbersThatItDoesNotKnow) {
  WeightSample sample;
  sample.Add("weight", "I8", {2, 3}, std::string(6, '\0'));
  EXPECT_THAT(sample.ErrorText(), HasSubstr("a.safetensors: tensor \"m.weight\": expected numbers "
                                            "in F32, F16, BF16, F8_E4M3, packed integers, "
                                            "MXFP4 or NVFP4, found I8"));
  sample.tensors.clear();
  sample.Add("weight", "F32", {0, 3}, "");
  EXPECT_THAT(sample.ErrorText(), HasSubstr("expected values, found shape [0, 3]"));
}

TEST(Weight, RefusesCompanionsOfOtherFormats) {
  WeightSample sample;
  sample.Add("weight", "F32", {1}, std::string(4, '\0'));
  sample.Add("biases", "F32", {1}, std::string(4, '\0'));
  EXPECT_THAT(sample.ErrorText(), HasSubstr("tensor \"m.biases\": expected numbers in"));
  EXPECT_THAT(sample.ErrorText(), HasSubstr("found \"biases\" of MLX's quantization"));
  sample.Remove("biases");
  sample.Add("weight_shape", "I32", {1}, std::string(4, '\0'));
  EXPECT_THAT(sample.ErrorText(), HasSubstr("\"m.weight_shape\": expected the codes of \"m\""));
}

TEST(Weight, NamesTheMissingShardOfAScale) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(fixtures::WriteSafetensors(dir / "a.safetensors",
                                         {{"m.weight", "F8_E4M3", {1, 2}, std::string(2, '\0')}}));
  ASSERT_TRUE(fixtures::WriteFile(
      dir / "model.safetensors.index.json",
      R"({"weight_map": {"m.weight": "a.safetensors", "m.weight_scale_inv": "b.safetensors"}})"));
  const auto checkpoint = Checkpoint::Open(dir.path());
  ASSERT_FALSE(checkpoint);
  EXPECT_THAT(checkpoint.error().message, HasSubstr("b.safetensors"));
}

}  // namespace
}  // namespace moepack
