#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/gguf_writer.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"
#include "libshard/check/model_check.h"
#include "libshard/convert/gguf_model.h"
#include "tests/libshard/format/bent_checkpoint.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(CheckModel, SkipsShapesWhenOnlyNamesAreKnown) {
  BentCheckpoint checkpoint("qwen3-moe");
  checkpoint.config["vocab_size"] = 1;
  EXPECT_EQ(checkpoint.Findings().size(), 2u);
  const auto model = MoeModel::Open(checkpoint.Write());
  Json index = {{"metadata", Json::object()}, {"weight_map", Json::object()}};
  for (const TensorEntry& entry : model->checkpoint().tensors()) {
    if (entry.name.find("layers.1.self_attn.k_proj") != std::string::npos) continue;
    index["weight_map"][entry.name] = "model-00001-of-00001.safetensors";
  }
  const fixtures::TempDir dir;
  ASSERT_TRUE(fixtures::WriteFile(dir / "model.safetensors.index.json", index.dump()));
  ASSERT_TRUE(fixtures::WriteFile(dir / "config.json", checkpoint.config.dump()));
  const auto names = MoeModel::Open(dir / "model.safetensors.index.json");
  ASSERT_TRUE(names) << names.error().message;
  ASSERT_TRUE(names->checkpoint().names_only());
  const auto findings = CheckModel(*names);
  ASSERT_TRUE(findings) << findings.error().message;
  ASSERT_EQ(findings->size(), 1u);
  EXPECT_EQ((*findings)[0].kind, FindingKind::kMissing);
  EXPECT_EQ((*findings)[0].what, "tensor \"model.layers.1.self_attn.k_proj.weight\"");
}

// Conversion says what its runtime can hold.
TEST(CheckModel, ReportsLayersWithFewerExpertsThanTheConfigsOneNumber) {
  BentCheckpoint checkpoint("qwen3-moe");
  for (const char* expert : {"4", "5"})
    checkpoint.Remove(std::string("layers.1.mlp.experts.") + expert + ".");
  checkpoint.Reshape("model.layers.1.mlp.gate.weight", {4, 64});
  EXPECT_THAT(checkpoint.Findings(),
              ElementsAre("missing: layer 1: routed experts: expected 6 (num_experts), found 4"));
  EXPECT_THAT(checkpoint.Findings({.experts_may_lack = true}), IsEmpty());
  checkpoint.config["num_experts"] = {6, 4, 6};
  EXPECT_THAT(checkpoint.Findings(), IsEmpty());
}

TEST(CheckModel, RequiresAConfig) {
  const BentCheckpoint checkpoint("qwen3-moe");
  const fs::path path = checkpoint.Write();
  fs::remove(path / "config.json");
  const auto model = MoeModel::Open(path);
  ASSERT_TRUE(model) << model.error().message;
  const auto findings = CheckModel(*model);
  ASSERT_FALSE(findings);
  EXPECT_EQ(findings.error().code, Code::kNotFound);
  EXPECT_EQ(findings.error().message,
            Cat((path / "config.json").string(),
                ": expected the config that the tensors are checked against, found none"));
}

TEST(CheckModel, ListsFindingsOfTheConfigFirst) {
  BentCheckpoint checkpoint("qwen3-moe");
  checkpoint.config["num_key_value_heads"] = 3;
  checkpoint.Remove("model.norm");
  EXPECT_THAT(checkpoint.Findings(),
              ElementsAre("config: num_key_value_heads: expected a divisor of "
                          "num_attention_heads (4), found 3",
                          "missing: final norm: expected a tensor like \"norm.{W}\", found none"));
}

TEST(CheckModel, ConversionIsRefusedWithTheFirstFindings) {
  BentCheckpoint checkpoint("qwen3-moe", {.ff = 48, .vocabulary = 100});
  for (const char* field : {"vocab_size", "moe_intermediate_size"}) checkpoint.config[field] = 10;
  checkpoint.Remove("layers.0.input_layernorm");
  checkpoint.Remove("model.norm");
  const auto model = MoeModel::Open(checkpoint.Write());
  ASSERT_TRUE(model) << model.error().message;
  const auto converted = ToGguf(*model, {});
  ASSERT_FALSE(converted);
  EXPECT_EQ(converted.error().code, Code::kCorrupt);
  EXPECT_EQ(
      converted.error().message,
      Cat((checkpoint.Write() / "config.json").string(),
          ": missing: final norm: expected a tensor like \"norm.{W}\", found none; "
          "missing: tensor \"model.layers.0.input_layernorm.weight\": expected one as layers 1-2 "
          "have, of the same kind, found none; "
          "misshapen: tensor \"model.embed_tokens.weight\": expected [10, 64] (vocab_size, "
          "hidden_size), found [100, 64]; "
          "misshapen: tensor \"model.layers.0.mlp.experts.0.down_proj.weight\" and 17 like it: "
          "expected [64, 10] (width of an expert and hidden size), found [64, 48]; "
          "misshapen: tensor \"model.layers.0.mlp.experts.0.gate_proj.weight\" and 17 like it: "
          "expected [10, 64] (width of an expert and hidden size), found [48, 64]; and 2 more"));
  EXPECT_EQ(converted.error().hint, Cat("`moepack list-tensors ", checkpoint.Write().string(),
                                        " --check` names everything that disagrees"));
}

// A GGUF model of three layers that matches its metadata, except for `bend`.
std::vector<std::string> GgufFindings(void (*bend)(fixtures::GgufFile&)) {
  fixtures::GgufFile file = fixtures::MiniGguf("qwen3moe", 3, 4);
  bend(file);
  const fixtures::TempDir dir;
  EXPECT_TRUE(fixtures::WriteFile(dir / "m.gguf", fixtures::GgufBytes(file)));
  const auto model = MoeModel::Open(dir / "m.gguf");
  EXPECT_TRUE(model) << model.error().message;
  const auto findings = CheckModel(*model);
  EXPECT_TRUE(findings) << findings.error().message;
  std::vector<std::string> texts;
  for (const CheckFinding& finding : *findings) texts.push_back(FindingText(finding));
  return texts;
}

void Erase(fixtures::GgufFile& file, const std::string& name) {
  EXPECT_EQ(std::erase_if(file.tensors, [&](const auto& t) { return t.name == name; }), 1u);
}

TEST(CheckModel, GgufModelsAreComparedWithTheirMetadata) {
  EXPECT_THAT(GgufFindings([](fixtures::GgufFile&) {}), IsEmpty());
  EXPECT_THAT(GgufFindings([](fixtures::GgufFile& file) {
                const std::string key = "qwen3moe.expert_feed_forward_length";
                std::erase_if(file.pairs, [&](const auto& pair) { return pair.key == key; });
                file.pairs.push_back(fixtures::GgufPairU32(key, 3));
              }),
              ElementsAre(HasSubstr("blk.0.ffn_down_exps.weight\" and 2 like it: expected "
                                    "[any, 2, 3]"),
                          HasSubstr("blk.0.ffn_gate_exps.weight\" and 2 like it"),
                          HasSubstr("blk.0.ffn_up_exps.weight\" and 2 like it")));
  EXPECT_THAT(GgufFindings([](fixtures::GgufFile& file) { Erase(file, "token_embd.weight"); }),
              ElementsAre(HasSubstr("missing: embedding: expected a tensor like")));
}

// llama.cpp #25024, #26916
TEST(CheckModel, NamesTheBlockForMultiTokenPredictionThatAGgufAnnouncesAndDoesNotHold) {
  EXPECT_THAT(GgufFindings([](fixtures::GgufFile& file) {
                std::erase_if(file.pairs,
                              [](const auto& pair) { return pair.key == "qwen3moe.block_count"; });
                file.pairs.push_back(fixtures::GgufPairU32("qwen3moe.block_count", 4));
                file.pairs.push_back(fixtures::GgufPairU32("qwen3moe.nextn_predict_layers", 1));
              }),
              ElementsAre("missing: layer 3: block for multi-token prediction: expected one, as "
                          "qwen3moe.nextn_predict_layers announces 1, found none"));
}

}  // namespace
}  // namespace moepack
