#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "libshard/check/model_check.h"
#include "libshard/check/promise.h"

namespace moepack {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Family& FamilyNamed(std::string_view name) {
  const FamilyList all = AllFamilies();
  return *std::find_if(all.begin(), all.end(), [&](const Family& f) { return f.name == name; });
}

// Fields of a small model; `more` begins with a comma or is empty.
std::string Config(const std::string& more, const char* layers = "4") {
  return Cat(R"({"num_hidden_layers": )", layers, R"(, "hidden_size": 64, "vocab_size": 100,
    "num_attention_heads": 4, "num_key_value_heads": 2, "num_experts": 8,
    "num_experts_per_tok": 2, "moe_intermediate_size": 32)",
             more, "}");
}

struct Promised {
  ModelPromise promise;
  std::vector<std::string> findings;
};

Promised Read(const std::string& text, const char* family = "qwen3-moe",
              std::string_view defaults = "") {
  Promised out;
  std::vector<CheckFinding> findings;
  const auto model = ParseModelConfig("config.json", text);
  EXPECT_TRUE(model) << model.error().message;
  const auto promise = ReadPromise(*HfConfig::Parse("config.json", text), defaults, *model,
                                   FamilyNamed(family), findings);
  EXPECT_TRUE(promise) << promise.error().message;
  if (promise) out.promise = *promise;
  for (const CheckFinding& finding : findings) out.findings.push_back(FindingText(finding));
  return out;
}

// "dmdm": which layers have experts; '?' where nothing says so.
std::string Moe(const std::string& more, const char* family = "qwen3-moe") {
  const Promised read = Read(Config(more), family);
  EXPECT_THAT(read.findings, IsEmpty()) << more;
  std::string letters;
  for (const LayerPromise& layer : read.promise.layers) {
    letters += !layer.moe ? '?' : *layer.moe ? 'm' : 'd';
  }
  return letters;
}

TEST(Promise, ReadsLayersWithExpertsFromManyFields) {
  EXPECT_EQ(Moe(""), "????");
  EXPECT_EQ(Moe("", "mixtral"), "mmmm");
  EXPECT_EQ(Moe(R"(, "decoder_sparse_step": 2)"), "dmdm");
  EXPECT_EQ(Moe(R"(, "decoder_sparse_step": 1, "mlp_only_layers": [0, 3])"), "dmmd");
  EXPECT_EQ(Moe(R"(, "mlp_only_layers": [])"), "mmmm");
  EXPECT_EQ(Moe(R"(, "first_k_dense_replace": 1)"), "dmmm");
  EXPECT_EQ(Moe(R"(, "first_k_dense_replace": 1, "moe_layer_freq": 2)"), "ddmd");
  EXPECT_EQ(Moe(R"(, "moe_layer_freq": [0, 1, 1, 0])"), "dmmd");
  EXPECT_EQ(Moe(R"(, "mlp_layer_types": ["dense", "sparse", "dense", "sparse"])"), "dmdm");
  EXPECT_EQ(Moe(R"(, "interleave_moe_layer_step": 2)", "llama4"), "dmdm");
  EXPECT_EQ(Moe(R"(, "interleave_moe_layer_step": 2, "moe_layers": [0, 1])", "llama4"), "mmdd");
  EXPECT_EQ(Moe(R"(, "moe_layers_enum": "2,3")", "step3"), "ddmm");
  EXPECT_EQ(Moe(R"(, "expert_layer_period": 2, "expert_layer_offset": 1)", "jamba"), "dmdm");
  EXPECT_EQ(Moe(R"(, "moe_layer_start_index": 1, "moe_layer_end_index": 2)", "ernie4.5-moe"),
            "dmmd");
  EXPECT_EQ(Moe(R"(, "moe_layer_start_index": 1, "moe_layer_end_index": -1,
                   "moe_layer_interval": 2)",
                "ernie4.5-moe"),
            "dmdm");
  EXPECT_EQ(Moe(R"(, "num_dense_layers": 2)", "lfm2-moe"), "ddmm");
  EXPECT_EQ(Moe(R"(, "hybrid_override_pattern": "ME*E")", "nemotron-h"), "dmdm");
  EXPECT_EQ(Moe(R"(, "layers_block_type": ["mamba", "moe", "attention", "moe"])", "nemotron-h"),
            "dmdm");
}

TEST(Promise, UsesTheNamesOfAttentionInTheConfig) {
  const auto kinds = [](const std::string& more) {
    std::vector<std::string> names;
    for (const LayerPromise& layer : Read(Config(more), "qwen3-next").promise.layers) {
      names.push_back(layer.attention);
    }
    return names;
  };
  EXPECT_THAT(
      kinds(R"(, "full_attention_interval": 2)"),
      ElementsAre("linear_attention", "full_attention", "linear_attention", "full_attention"));
  EXPECT_THAT(kinds(R"(, "full_attention_interval": 2, "layer_types": ["a", "b", "a", "a"])"),
              ElementsAre("a", "b", "a", "a"));
  EXPECT_THAT(kinds(R"(, "attn_type_list": [0, 0, 1, 0])"), ElementsAre("0", "0", "1", "0"));
  EXPECT_THAT(kinds(R"(, "compress_ratios": [0, 4, 0, 4, 0], "num_nextn_predict_layers": 1,
                       "num_hash_layers": 1)"),
              ElementsAre("0 hash", "4", "0", "4"));
}

TEST(Promise, KnowsTheIntervalOfFullAttentionThatAFamilyLeavesOut) {
  const auto kinds = [](const char* family) {
    std::vector<LayerKind> out;
    for (const LayerPromise& layer : Read(Config(""), family).promise.layers) {
      out.push_back(layer.kind);
    }
    return out;
  };
  EXPECT_THAT(kinds("qwen3-next"), ElementsAre(LayerKind::kLinear, LayerKind::kLinear,
                                               LayerKind::kLinear, LayerKind::kFull));
  EXPECT_THAT(kinds("qwen3-moe"), Each(LayerKind::kUnnamed));
}

TEST(Promise, ListsMustHaveAnEntryPerLayer) {
  for (const char* list :
       {R"("layer_types": ["a", "a"])", R"("mlp_layer_types": ["dense", "sparse"])",
        R"("moe_layer_freq": [0, 1])", R"("attn_type_list": [1, 1])",
        R"("hybrid_override_pattern": "ME")", R"("layers_block_type": ["moe", "mamba"])"}) {
    const std::string field = Split(list, '"')[1];
    EXPECT_THAT(Read(Config(Cat(", ", list))).findings,
                ElementsAre(Cat("config: ", field, ": expected one entry per layer (4), found 2")));
  }
  EXPECT_THAT(Read(Config(R"(, "mlp_only_layers": [1, 4])")).findings,
              ElementsAre("config: mlp_only_layers: expected numbers of layers below 4, found 4"));
  EXPECT_THAT(Read(Config(R"(, "moe_layers": [1, 9])")).findings,
              ElementsAre("config: moe_layers: expected numbers of layers below 4, found 9"));
  EXPECT_THAT(Read(Config(R"(, "first_k_dense_replace": 5)")).findings,
              ElementsAre("config: first_k_dense_replace: expected at most 4, found 5"));
}

TEST(Promise, StepsAndSizesMustBeAtLeastOne) {
  for (const char* field : {"decoder_sparse_step", "interleave_moe_layer_step",
                            "expert_layer_period", "full_attention_interval", "head_dim"}) {
    EXPECT_THAT(Read(Config(Cat(", \"", field, "\": 0"))).findings,
                ElementsAre(Cat("config: ", field, ": expected at least 1, found 0")));
  }
  EXPECT_THAT(Read(Config("", "0")).findings,
              ElementsAre("config: num_hidden_layers: expected at least one layer, found 0"));
}

TEST(Promise, HeadCountsMustDivide) {
  std::string text = Config("");
  text.replace(text.find("\"num_key_value_heads\": 2"), 24, "\"num_key_value_heads\": 3");
  EXPECT_THAT(Read(text).findings, ElementsAre("config: num_key_value_heads: expected a divisor of "
                                               "num_attention_heads (4), found 3"));
  text = Config("");
  text.replace(text.find("\"hidden_size\": 64"), 17, "\"hidden_size\": 66");
  EXPECT_THAT(Read(text).findings,
              ElementsAre("config: hidden_size: expected a multiple of 4 heads, as there is no "
                          "head_dim, found 66"));
  EXPECT_THAT(Read(text, "llama4").findings, IsEmpty())
      << "the size of llama4's heads does not depend on hidden_size";
}

TEST(Promise, RoutingGroupsMustDivideTheExperts) {
  EXPECT_THAT(Read(Config(R"(, "n_group": 3, "topk_group": 1)")).findings,
              ElementsAre("config: n_group: expected a divisor of the 8 experts, found 3"));
  EXPECT_THAT(Read(Config(R"(, "n_group": 2, "topk_group": 3)")).findings,
              ElementsAre("config: topk_group: expected at most n_group (2), found 3"));
  EXPECT_THAT(Read(Config(R"(, "n_group": 8, "topk_group": 1)")).findings,
              ElementsAre("config: topk_group: expected groups of 2 experts or more together, as a "
                          "token gets, found 1 of 1 expert"));
  EXPECT_THAT(Read(Config(R"(, "n_group": 4, "topk_group": 1)")).findings, IsEmpty());
}

TEST(Promise, PromisesNoHeadsWhereTheyDifferByLayer) {
  EXPECT_TRUE(Read(Config("")).promise.heads);
  EXPECT_EQ(Read(Config("")).promise.heads->size, 16u);
  EXPECT_FALSE(Read(Config(R"(, "global_head_dim": 32)")).promise.heads);
  EXPECT_FALSE(Read(Config(R"(, "swa_num_key_value_heads": 4)")).promise.heads);
  EXPECT_FALSE(Read(Config(R"(, "head_dim": 16, "v_head_dim": 8)")).promise.heads);
  EXPECT_FALSE(Read(Config(""), "llama4").promise.heads) << "no head_dim, and no rule for it";
}

TEST(Promise, FillsInTheDefaultsOfTheConfigClass) {
  const std::string text = R"({"num_hidden_layers": 1, "hidden_size": 64, "num_experts": 8,
    "num_attention_heads": 4, "intermediate_size": 48})";
  EXPECT_EQ(Read(text).promise.expert_width, 0u);
  EXPECT_FALSE(Read(text).promise.heads);
  const ModelPromise complete = Read(text, "qwen3-moe", R"({"head_dim": 8})").promise;
  EXPECT_EQ(complete.expert_width, 48u);
  ASSERT_TRUE(complete.heads);
  EXPECT_EQ(complete.heads->key_heads, 4u);
  EXPECT_EQ(complete.heads->size, 8u);
}

TEST(Promise, WidthsOfSharedExpertsAreStatedOrDerivedFromTheirCount) {
  EXPECT_FALSE(Read(Config("")).promise.shared);
  EXPECT_EQ(Read(Config(R"(, "n_shared_experts": 2)"), "deepseek-v3").promise.shared_width, 64u);
  const ModelPromise none = Read(Config(R"(, "shared_expert_intermediate_size": 0)")).promise;
  EXPECT_EQ(none.shared, std::optional(false));
  const ModelPromise one = Read(Config(R"(, "shared_expert_intermediate_size": 48)")).promise;
  EXPECT_EQ(one.shared, std::optional(true));
  EXPECT_EQ(one.shared_width, 48u);
}

TEST(Promise, FieldsOfAnotherTypeAreAnError) {
  const std::string text = Config(R"(, "head_dim": "16")");
  std::vector<CheckFinding> findings;
  const auto promise =
      ReadPromise(*HfConfig::Parse("config.json", text), "", *ParseModelConfig("c", text),
                  FamilyNamed("qwen3-moe"), findings);
  ASSERT_FALSE(promise);
  EXPECT_EQ(promise.error().code, Code::kCorrupt);
  EXPECT_THAT(promise.error().message, HasSubstr("config.json: head_dim: expected whole numbers"));
}

TEST(Promise, ReadsTheKeysOfAGgufModel) {
  GgufMetadata metadata;
  metadata.Set("general.architecture", GgufValue::String("deepseek2"));
  metadata.Set("deepseek2.leading_dense_block_count", GgufValue::U32(9));
  metadata.Set("deepseek2.expert_feed_forward_length", GgufValue::U32(48));
  metadata.Set("deepseek2.feed_forward_length", GgufValue::I32s(std::vector<int32_t>{1, 2}));
  ModelConfig config;
  config.layers = 2;
  config.hidden_size = 64;
  config.vocab_size = 100;
  const ModelPromise promise = ReadGgufPromise(metadata, config);
  EXPECT_EQ(promise.layers_key, "deepseek2.block_count");
  EXPECT_EQ(promise.expert_width, 48u);
  EXPECT_EQ(promise.expert_input, 64u);
  EXPECT_EQ(promise.dense_width, 0u) << "a list of widths gives no single width";
  ASSERT_EQ(promise.layers.size(), 2u);
  EXPECT_EQ(promise.layers[1].moe, std::optional(false));
}

}  // namespace
}  // namespace moepack
