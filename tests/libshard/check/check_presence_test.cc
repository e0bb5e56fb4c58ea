#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/gguf_writer.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"
#include "libshard/check/model_check.h"
#include "tests/libshard/format/bent_checkpoint.h"

namespace moepack {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(CheckPresence, NamesMissingEmbeddingNormAndHead) {
  BentCheckpoint checkpoint("qwen3-moe");
  checkpoint.Remove("embed_tokens");
  checkpoint.Remove("model.norm");
  checkpoint.Remove("lm_head");
  EXPECT_THAT(
      checkpoint.Findings(),
      ElementsAre("missing: embedding: expected a tensor like \"embed_tokens.{W}\", found none",
                  "missing: final norm: expected a tensor like \"norm.{W}\", found none"))
      << "nothing says whether the head is tied";
  checkpoint.config["tie_word_embeddings"] = true;
  EXPECT_EQ(checkpoint.Findings().size(), 2u);
  checkpoint.config["tie_word_embeddings"] = false;
  EXPECT_THAT(checkpoint.Findings(),
              Contains("missing: head: expected a tensor like \"lm_head.{W}\", as "
                       "tie_word_embeddings is false, found none"));
}

TEST(CheckPresence, NamesMissingLayers) {
  BentCheckpoint checkpoint("qwen3-moe", {.layers = 6});
  checkpoint.Remove("layers.5.");
  checkpoint.Remove("layers.3.");
  checkpoint.Remove("layers.2.");
  EXPECT_THAT(checkpoint.Findings(),
              ElementsAre("missing: layers 2-3,5: all tensors: expected 6 layers "
                          "(num_hidden_layers), found 3"));
}

TEST(CheckPresence, NamesEveryTensorThatATornLastLayerLacks) {
  BentCheckpoint checkpoint("qwen3-moe");
  checkpoint.Remove("layers.2.mlp.");
  checkpoint.Remove("layers.2.self_attn.");
  const std::string as = ": expected one as layers 0-1 have, of the same kind, found none";
  std::vector<std::string> expected = {
      "missing: layer 2: routed experts: expected some (the family), found none"};
  expected[0] = "missing: layer 2: routed experts: expected some (decoder_sparse_step), found none";
  for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm"}) {
    expected.push_back("missing: tensor \"model.layers.2.self_attn." + std::string(name) +
                       ".weight\"" + as);
  }
  EXPECT_EQ(checkpoint.Findings(), expected);
}

TEST(CheckPresence, NamesALayerThatTheConfigDoesNotHave) {
  BentCheckpoint checkpoint("qwen3-moe");
  checkpoint.Add("model.layers.3.input_layernorm.weight", {64});
  checkpoint.Add("model.layers.3.post_attention_layernorm.weight", {64});
  EXPECT_THAT(
      checkpoint.Findings(),
      ElementsAre("extra: layer 3: expected layers below 3 (num_hidden_layers), found 2 tensors, "
                  "the first of them \"model.layers.3.input_layernorm.weight\""));
}

TEST(CheckPresence, DenseLayersHaveNoRoutedExpertsAndTheOthersDo) {
  BentCheckpoint checkpoint("deepseek-v2");
  checkpoint.config["first_k_dense_replace"] = 0;
  EXPECT_THAT(checkpoint.Findings(), ElementsAre("missing: layer 0: routed experts: expected some "
                                                 "(first_k_dense_replace), found none"));
  checkpoint.config["first_k_dense_replace"] = 2;
  EXPECT_THAT(checkpoint.Findings(),
              ElementsAre("extra: layer 1: routed experts: expected none, a dense layer "
                          "(first_k_dense_replace), found some"));
  checkpoint.config["first_k_dense_replace"] = 1;
  checkpoint.Remove("layers.0.mlp.");
  EXPECT_THAT(checkpoint.Findings(),
              ElementsAre("missing: layer 0: dense feed-forward part: expected one "
                          "(first_k_dense_replace), found none"));
}

TEST(CheckPresence, LayersWithExpertsHaveARouterAndAllProjections) {
  BentCheckpoint checkpoint("mixtral");
  checkpoint.Remove("block_sparse_moe.gate");
  checkpoint.Remove(".w3.");
  EXPECT_THAT(checkpoint.Findings(),
              ElementsAre("missing: layers 0-2: router: expected one in a layer with experts, "
                          "found none",
                          "missing: layers 0-2: up projection of the experts: expected one in a "
                          "layer with experts, found none"));
}

TEST(CheckPresence, ASelectionBiasIsRequiredWhereTheConfigMentionsOne) {
  BentCheckpoint checkpoint("minimax-m2");
  checkpoint.Remove("e_score_correction_bias");
  EXPECT_THAT(checkpoint.Findings(),
              ElementsAre("missing: layers 0-2: selection bias of the router: expected one "
                          "(use_routing_bias), found none"));
  checkpoint.config["use_routing_bias"] = false;
  EXPECT_THAT(checkpoint.Findings(), IsEmpty());
}

TEST(CheckPresence, SharedExpertsAreRequiredWhereTheConfigCountsThem) {
  BentCheckpoint checkpoint("dots1");
  checkpoint.config["n_shared_experts"] = 0;
  EXPECT_THAT(checkpoint.Findings(),
              ElementsAre("extra: layers 1-2: shared experts: expected none in the config, "
                          "found some"));
  checkpoint.Remove("shared_experts");
  EXPECT_THAT(checkpoint.Findings(), IsEmpty());
  checkpoint.config["n_shared_experts"] = 2;
  EXPECT_THAT(checkpoint.Findings(),
              ElementsAre("missing: layers 1-2: shared experts: expected some, as the config "
                          "counts them, found none"));
}

TEST(CheckPresence, LinearAttentionIsRequiredInTheLayersThatTheConfigLists) {
  BentCheckpoint checkpoint("qwen3-next");
  checkpoint.config["layer_types"] = {"linear_attention", "full_attention", "linear_attention",
                                      "linear_attention"};
  EXPECT_THAT(checkpoint.Findings(),
              ElementsAre("missing: layer 3: linear attention: expected some as the config lists "
                          "it, found none",
                          "missing: layer 1: full attention: expected some as the config lists "
                          "it, found none"));
}

TEST(CheckPresence, AnnouncedBlocksForMultiTokenPredictionAreRequired) {
  BentCheckpoint checkpoint("glm-4.5");
  checkpoint.config["num_nextn_predict_layers"] = 3;
  EXPECT_THAT(checkpoint.Findings(),
              ElementsAre("missing: layers 4-5: block for multi-token prediction: expected one, as "
                          "the config announces 3, found none"));
  EXPECT_THAT(checkpoint.Findings({.mtp_may_lack = true}), IsEmpty());
  checkpoint.config["num_nextn_predict_layers"] = 1;
  checkpoint.Remove("layers.3.eh_proj");
  checkpoint.Remove("layers.3.shared_head");
  EXPECT_THAT(checkpoint.Findings({.mtp_may_lack = true}),
              ElementsAre("missing: layer 3: what makes a block for multi-token prediction: "
                          "expected tensors like eh_proj, found none"));
}

TEST(CheckPresence, UnannouncedBlocksForMultiTokenPredictionAreExtra) {
  BentCheckpoint checkpoint("glm-4.5");
  checkpoint.config["num_nextn_predict_layers"] = 0;
  const auto findings = checkpoint.Findings();
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0], testing::StartsWith("extra: layer 3: expected layers below 3 "
                                               "(num_hidden_layers), found "));
  checkpoint.config.erase("num_nextn_predict_layers");
  EXPECT_THAT(checkpoint.Findings(), IsEmpty()) << "the config is silent and the names are clear";
}

TEST(CheckPresence, BlocksWithTheirOwnNumberingCountToo) {
  BentCheckpoint checkpoint("qwen3.5-moe");
  checkpoint.Remove("mtp.");
  EXPECT_THAT(
      checkpoint.Findings(),
      ElementsAre("missing: layer 4: block for multi-token prediction: expected one, as the "
                  "config announces 1, found none"));
}

// A GGUF of three blocks, the last of which its keys announce for multi-token prediction, with the
// nextn tensors that llama.cpp needs.
fixtures::GgufFile GgufWithMtp() {
  fixtures::GgufFile file = fixtures::MiniGguf("glm4moe", 3, 4);
  file.pairs.push_back(fixtures::GgufPairU32("glm4moe.nextn_predict_layers", 1));
  for (const char* name : {"eh_proj", "enorm", "hnorm"}) {
    file.tensors.push_back(file.tensors.back());
    file.tensors.back().name = Cat("blk.2.nextn.", name, ".weight");
  }
  return file;
}

std::vector<std::string> FindingsOf(const fixtures::GgufFile& file) {
  const fixtures::TempDir dir;
  EXPECT_TRUE(fixtures::WriteFile(dir / "m.gguf", fixtures::GgufBytes(file)));
  const auto model = MoeModel::Open(dir / "m.gguf");
  if (!model) return {model.error().message};
  const auto findings = CheckModel(*model);
  if (!findings) return {findings.error().message};
  std::vector<std::string> texts;
  for (const CheckFinding& finding : *findings) {
    if (finding.kind != FindingKind::kMisshapen) texts.push_back(FindingText(finding));
  }
  return texts;
}

TEST(CheckPresence, LooksInsideTheAnnouncedBlockOfAGguf) {
  EXPECT_THAT(FindingsOf(GgufWithMtp()), IsEmpty());
  const auto without = [](const std::string& name) {
    fixtures::GgufFile file = GgufWithMtp();
    std::erase_if(file.tensors, [&](const auto& tensor) { return tensor.name == name; });
    return FindingsOf(file);
  };
  EXPECT_THAT(without("blk.2.attn_norm.weight"),
              ElementsAre("missing: tensor \"blk.2.attn_norm.weight\": expected one as all layers "
                          "with experts have, found none"));
  EXPECT_THAT(without("blk.2.ffn_up_exps.weight"),
              ElementsAre(testing::HasSubstr("layer 2: expected experts and router")));
  for (const char* name : {"eh_proj", "enorm", "hnorm"}) {
    const std::string tensor = Cat("blk.2.nextn.", name, ".weight");
    EXPECT_THAT(without(tensor), ElementsAre(Cat("missing: tensor \"", tensor,
                                                 "\": expected one in a block for multi-token "
                                                 "prediction, found none")));
  }
}

TEST(CheckPresence, AnAnnouncedBlockOfAGgufWithoutNextnTensorsIsReportedOnce) {
  fixtures::GgufFile file = GgufWithMtp();
  std::erase_if(file.tensors, [](const auto& tensor) {
    return tensor.name.find(".nextn.") != std::string::npos;
  });
  EXPECT_THAT(FindingsOf(file),
              ElementsAre("missing: layer 2: what makes a block for multi-token prediction: "
                          "expected tensors like nextn.eh_proj, found none"));
}

// As those of Nemotron.
TEST(CheckPresence, AGgufWhoseExpertsHaveNoGatesIsWhole) {
  fixtures::GgufFile file = fixtures::MiniGguf("nemotron_h_moe", 2, 4);
  std::erase_if(file.tensors, [](const auto& tensor) {
    return tensor.name.find("ffn_gate_exps") != std::string::npos;
  });
  EXPECT_THAT(FindingsOf(file), IsEmpty());
}

TEST(CheckPresence, FindsTensorsForMultiTokenPredictionThatNoKeyOfAGgufAnnounces) {
  fixtures::GgufFile file = GgufWithMtp();
  file.pairs.pop_back();
  EXPECT_THAT(FindingsOf(file),
              ElementsAre("extra: layer 2: tensors like nextn.eh_proj: expected none in the first "
                          "3 blocks, as glm4moe.nextn_predict_layers is 0, found some"));
}

TEST(CheckPresence, MultiTokenPredictionBlocksAreNotRequiredInFamiliesWithoutRowsForThem) {
  BentCheckpoint checkpoint("minimax-m2");
  checkpoint.config["num_mtp_modules"] = 3;
  EXPECT_THAT(checkpoint.Findings(), IsEmpty());
}

}  // namespace
}  // namespace moepack
