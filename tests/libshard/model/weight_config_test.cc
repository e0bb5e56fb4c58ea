#include "libshard/model/weight_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack {
namespace {

using testing::HasSubstr;

Result<WeightConfig> ReadWeightConfig(const std::string& quantization) {
  const auto config = HfConfig::Parse("c.json", "{\"quantization_config\": " + quantization + "}");
  EXPECT_TRUE(config);
  return ReadWeightConfig(*config);
}

std::string ErrorText(const std::string& quantization, Code code = Code::kUnsupported) {
  const auto read = ReadWeightConfig(quantization);
  EXPECT_FALSE(read) << quantization;
  if (read) return "";
  EXPECT_EQ(read.error().code, code) << read.error().message;
  return read.error().message;
}

std::string Compressed(const std::string& format, const std::string& weights) {
  return R"({"quant_method": "compressed-tensors", "format": ")" + format +
         R"(", "config_groups": {"group_0": {"weights": )" + weights + "}}}";
}

TEST(WeightConfig, IsEmptyWithoutQuantization) {
  const auto read = ReadWeightConfig("null");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->method, "");
  EXPECT_EQ(read->block_rows, 0u);
}

TEST(WeightConfig, ReadsModulesOfFp8ThatAreNotQuantizedUnderAnyName) {
  for (const std::string name : {"modules_to_not_convert", "ignored_layers", "ignore"}) {
    const auto read =
        ReadWeightConfig(R"({"quant_method": "fp8", ")" + name + R"(": ["lm_head", "a.b"]})");
    ASSERT_TRUE(read) << name;
    EXPECT_EQ(read->unquantized, (std::vector<std::string>{"a.b", "lm_head"})) << name;
    EXPECT_EQ(
        ErrorText(R"({"quant_method": "fp8", ")" + name + R"(": ["lm_head", 1]})", Code::kCorrupt),
        "c.json: quantization_config." + name +
            ": expected a list of names of modules, found an array of 2 values");
  }
}

TEST(WeightConfig, ReadsBlocksOfFp8) {
  const auto read = ReadWeightConfig(R"({"quant_method": "fp8", "weight_block_size": [128, 64]})");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->block_rows, 128u);
  EXPECT_EQ(read->block_columns, 64u);
}

TEST(WeightConfig, ReadsPackedIntegers) {
  const auto read = ReadWeightConfig(Compressed(
      "pack-quantized", R"({"num_bits": 4, "type": "int", "group_size": 32, "symmetric": false})"));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->format, "pack-quantized");
  EXPECT_EQ(read->bits, 4u);
  EXPECT_EQ(read->group_size, 32u);
  EXPECT_FALSE(read->symmetric);
}

TEST(WeightConfig, ReadsGptqAndAwq) {
  const auto gptq = ReadWeightConfig(R"({"quant_method": "gptq", "bits": 8, "group_size": -1})");
  ASSERT_TRUE(gptq);
  EXPECT_EQ(gptq->bits, 8u);
  EXPECT_EQ(gptq->group_size, 0u);
  EXPECT_TRUE(gptq->zeros_less_one);
  const auto awq = ReadWeightConfig(R"({"quant_method": "awq", "bits": 4, "group_size": 128})");
  ASSERT_TRUE(awq);
  EXPECT_FALSE(awq->zeros_less_one);
  // AutoAWQ's own name, which the reader of the model accepts too.
  const auto own = ReadWeightConfig(R"({"quant_method": "awq", "w_bit": 4, "group_size": 128})");
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_EQ(own->bits, 4u);
  EXPECT_THAT(ErrorText(R"({"quant_method": "awq", "w_bit": 8, "group_size": 128})"),
              HasSubstr("quantization_config.w_bit: expected 4, found 8"));
}

TEST(WeightConfig, LeavesNvfp4ToTheTensors) {
  EXPECT_TRUE(ReadWeightConfig(Compressed("nvfp4-pack-quantized", R"({"num_bits": 4})")));
  const auto modelopt = ReadWeightConfig(R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})");
  ASSERT_TRUE(modelopt);
  EXPECT_EQ(modelopt->method, "modelopt");
}

TEST(WeightConfig, NamesMethodsAndFormatsItDoesNotKnow) {
  EXPECT_THAT(
      ErrorText(R"({"quant_method": "bitsandbytes"})"),
      HasSubstr("c.json: quantization_config.quant_method: expected fp8, "
                "compressed-tensors, mxfp4, modelopt, gptq, awq, auto-round, intel/auto-round or "
                "quark, found \"bitsandbytes\""));
  EXPECT_THAT(ErrorText(Compressed("mxfp8-quantized", "{}")),
              HasSubstr("quantization_config.format: expected pack-quantized, float-quantized"));
  EXPECT_THAT(ErrorText(Compressed("pack-quantized", R"({"type": "float", "num_bits": 4})")),
              HasSubstr("config_groups.group_0.weights.type: expected int"));
  EXPECT_THAT(ErrorText(Compressed("pack-quantized", R"({"num_bits": 3})")),
              HasSubstr("num_bits: expected 2, 4 or 8, found 3"));
  EXPECT_THAT(ErrorText(R"({"quant_method": "awq", "bits": 8})"), HasSubstr("bits: expected 4"));
  EXPECT_THAT(ErrorText(R"({"quant_method": "awq", "bits": 4, "version": "gemv"})"),
              HasSubstr("version: expected gemm"));
  EXPECT_THAT(ErrorText(R"({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"})"),
              HasSubstr("checkpoint_format: expected gptq or gptq_v2"));
  EXPECT_THAT(ErrorText(R"({"quant_method": "compressed-tensors", "format": "pack-quantized",
                            "config_groups": {}})"),
              HasSubstr("config_groups: expected one, found 0"));
  EXPECT_THAT(ErrorText(R"({"quant_method": "compressed-tensors", "config_groups": {"a": {"format":
                            "marlin-24", "weights": {}}}})"),
              HasSubstr("config_groups.a.format: expected pack-quantized, float-quantized, "
                        "int-quantized, naive-quantized, nvfp4-pack-quantized or "
                        "mxfp4-pack-quantized, found \"marlin-24\""));
}

TEST(WeightConfig, ReadsEveryGroupInItsOwnFormat) {
  const auto read = ReadWeightConfig(R"({"quant_method": "compressed-tensors",
      "format": "mixed-precision", "config_groups": {
        "a": {"format": "float-quantized", "targets": ["re:.*self_attn.*"],
              "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}},
        "b": {"format": "mxfp4-pack-quantized", "weights": {"num_bits": 4, "type": "float"}},
        "c": {"format": "pack-quantized",
              "weights": {"num_bits": 4, "type": "int", "group_size": 32}},
        "d": {"format": "mxfp4-pack-quantized", "weights": {"num_bits": 4, "type": "float"}}}})");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->format, "float-quantized");
  ASSERT_EQ(read->others.size(), 2u);
  EXPECT_TRUE(read->others[0].mxfp4);
  EXPECT_EQ(read->others[1].bits, 4u);
  EXPECT_EQ(read->others[1].group_size, 32u);
}

TEST(WeightConfig, ReadsTheBitsOfSomeModulesOfGptq) {
  const auto read = ReadWeightConfig(R"({"quant_method": "gptq", "bits": 4, "group_size": 32,
      "dynamic": {"-:.*attn.*": {}, "+:.*down.*": {"bits": 8}, ".*up.*": {"group_size": -1},
                  "+:.*gate.*": {"bits": 4, "desc_act": true}}})");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->others.size(), 2u);
  EXPECT_EQ(read->others[0].bits, 8u);
  EXPECT_EQ(read->others[0].group_size, 32u);
  EXPECT_EQ(read->others[1].bits, 4u);
  EXPECT_EQ(read->others[1].group_size, 0u);
  EXPECT_THAT(
      ErrorText(R"({"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*down.*": {"bits": 3}}})"),
      HasSubstr("quantization_config.dynamic.+:.*down.*.bits: expected 2, 4 or 8, found 3"));
  EXPECT_THAT(
      ErrorText(R"({"quant_method": "gptq", "bits": 4, "dynamic": {"+:a": 8}})", Code::kCorrupt),
      HasSubstr("dynamic.+:a: expected an object, found 8"));
}

TEST(WeightConfig, ReadsThePackingOfAutoRound) {
  const std::string begin = R"({"quant_method": "auto-round", "bits": 4, "group_size": 128)";
  const auto usual = ReadWeightConfig(begin + R"(, "data_type": "int", "extra_config": {
      "lm_head": {"bits": 16, "data_type": "float"}, "a": {"bits": 8}}})");
  ASSERT_TRUE(usual) << usual.error().message;
  EXPECT_EQ(usual->packing, WordPacking::kGptq);
  EXPECT_TRUE(usual->zeros_less_one);
  ASSERT_EQ(usual->others.size(), 1u);
  EXPECT_EQ(usual->others[0].bits, 8u);
  const auto own = ReadWeightConfig(begin + R"(, "packing_format": "auto_round"})");
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_EQ(own->packing, WordPacking::kGptq);
  EXPECT_FALSE(own->zeros_less_one);
  const auto awq = ReadWeightConfig(begin + R"(, "packing_format": "auto_round:auto_awq"})");
  ASSERT_TRUE(awq) << awq.error().message;
  EXPECT_EQ(awq->packing, WordPacking::kAwq);
  EXPECT_THAT(ErrorText(begin + R"(, "packing_format": "auto_round:llm_compressor"})"),
              HasSubstr("quantization_config.packing_format: expected auto_round, "
                        "auto_round:auto_gptq, auto_round:gptq, auto_round:auto_awq or "
                        "auto_round:awq, found \"auto_round:llm_compressor\""));
  EXPECT_THAT(ErrorText(begin + R"(, "packing_format": "auto_round:auto_awq",
                                    "extra_config": {"a": {"bits": 8}}})"),
              HasSubstr("quantization_config.extra_config.a.bits: expected 4, found 8"));
  EXPECT_THAT(ErrorText(begin + R"(, "data_type": "mx_fp"})"),
              HasSubstr("data_type: expected int, found \"mx_fp\""));
}

TEST(WeightConfig, ReadsTheDataTypeOfQuark) {
  const auto quark = [](const std::string& weight) {
    return R"({"quant_method": "quark", "global_quant_config": {"weight": )" + weight + "}}";
  };
  const auto fp8 = ReadWeightConfig(quark(R"({"dtype": "fp8_e4m3", "qscheme": "per_tensor"})"));
  ASSERT_TRUE(fp8) << fp8.error().message;
  EXPECT_FALSE(fp8->mxfp4);
  EXPECT_EQ(fp8->block_rows, 0u);
  const auto mixed = ReadWeightConfig(R"({"quant_method": "quark",
      "global_quant_config": {"weight": {"dtype": "fp8_e4m3", "qscheme": "per_channel"}},
      "layer_quant_config": {"*experts*": {"weight": {"dtype": "fp4", "qscheme": "per_group",
                                           "group_size": 32, "scale_format": "e8m0"}},
                             "*gate": {"weight": null}}})");
  ASSERT_TRUE(mixed) << mixed.error().message;
  ASSERT_EQ(mixed->others.size(), 1u);
  EXPECT_TRUE(mixed->others[0].mxfp4);
  EXPECT_THAT(ErrorText(quark(R"({"dtype": "int4"})")),
              HasSubstr("global_quant_config.weight.dtype: expected fp4 or fp8_e4m3, found "
                        "\"int4\""));
  EXPECT_THAT(ErrorText(quark(R"({"dtype": "fp4", "qscheme": "per_group", "group_size": 32})")),
              HasSubstr("weight.scale_format: expected e8m0, found none"));
}

TEST(WeightConfig, RefusesFieldsOfAnotherKind) {
  EXPECT_THAT(ErrorText("[]", Code::kCorrupt), HasSubstr("expected an object"));
  EXPECT_THAT(ErrorText(R"({"quant_method": 7})", Code::kCorrupt), HasSubstr("expected a text"));
  for (const char* blocks : {"[128]", "[0, 128]", "128", "[128, 99999999]", "[128, -1]"}) {
    EXPECT_THAT(
        ErrorText(std::string(R"({"quant_method": "fp8", "weight_block_size": )") + blocks + "}",
                  Code::kCorrupt),
        HasSubstr("weight_block_size: expected two lengths of 1 to"));
  }
  EXPECT_THAT(ErrorText(R"({"quant_method": "gptq", "bits": 4, "group_size": 0})", Code::kCorrupt),
              HasSubstr("group_size: expected -1, or 1 to"));
  EXPECT_THAT(ErrorText(R"({"quant_method": "gptq"})", Code::kCorrupt),
              HasSubstr("bits: expected 2, 4 or 8, found none"));
  EXPECT_THAT(
      ErrorText(Compressed("pack-quantized", R"({"num_bits": 4, "symmetric": 1})"), Code::kCorrupt),
      HasSubstr("symmetric: expected true or false"));
  EXPECT_THAT(ErrorText(Compressed("pack-quantized", "7"), Code::kCorrupt),
              HasSubstr("group_0.weights: expected an object"));
}

TEST(WeightConfig, EscapesTheNamesOfGroupsInMessages) {
  const std::string names[] = {R"(a\u0000\u001b[1m)", std::string(5000, 'a')};
  const std::string shown[] = {R"(a\x00\x1b[1m)", std::string(200, 'a')};
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(ErrorText(R"({"quant_method": "compressed-tensors", "format": "pack-quantized",
                            "config_groups": {")" +
                            names[i] + R"(": {"weights": 7}}})",
                        Code::kCorrupt),
              "c.json: quantization_config.config_groups." + shown[i] +
                  ".weights: expected an object, found none");
  }
}

}  // namespace
}  // namespace moepack
