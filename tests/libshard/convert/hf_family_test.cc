// A converter's keys are compared with the model before anything is written.
#include "libshard/convert/hf_family.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"
#include "tests/libshard/convert/sample.h"

namespace moepack {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

// Converts a small Qwen3 model with keys that a family writes after all others.
class WrittenKeys : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir_.path()));
    auto model = MoeModel::Open(dir_.path());
    ASSERT_TRUE(model) << model.error().message;
    model_.emplace(*std::move(model));
  }

  Result<GgufModel> Convert(Status (*keys)(const HfConfig&, const HfShape&, ArchKeys&)) const {
    HfFamily family;
    family.architecture = "qwen3moe";
    family.keys = keys;
    AddModelRows(family);
    AddAttentionRows(family);
    AddQueryKeyNormRows(family);
    family.rows.push_back(
        {"layers.{L}.post_attention_layernorm.weight", "blk.{L}.ffn_norm.weight"});
    family.rows.push_back({"layers.{L}.mlp.gate.weight", "blk.{L}.ffn_gate_inp.weight"});
    AddExpertRows(family, "layers.{L}.mlp.experts.", {"gate_proj", "up_proj", "down_proj"});
    ConvertOptions options;
    options.part = ConvertOptions::Part::kNoTokenizer;
    return ConvertHf(*model_, family, options);
  }

  fixtures::TempDir dir_;
  std::optional<MoeModel> model_;
};

Status ExpertWidth(uint32_t off, const HfConfig& config, ArchKeys& keys) {
  SHARD_TRY(const uint32_t width, config.U32({"moe_intermediate_size"}));
  keys.U32("expert_feed_forward_length", width + off);
  return Ok();
}

TEST_F(WrittenKeys, ThatAgreeWithTheModelAreKept) {
  const auto gguf = Convert([](const HfConfig& config, const HfShape&, ArchKeys& keys) {
    return ExpertWidth(0, config, keys);
  });
  ASSERT_TRUE(gguf) << gguf.error().message;
  const ModelConfig& config = model_->config();
  EXPECT_EQ(gguf->architecture(), "qwen3moe");
  EXPECT_EQ(gguf->metadata.Uint("qwen3moe.expert_feed_forward_length"),
            config.expert_intermediate_size);
  EXPECT_EQ(gguf->metadata.Uint("qwen3moe.expert_count"), config.expert_count);
  EXPECT_EQ(gguf->metadata.Uint("qwen3moe.block_count"), config.layers);
}

TEST_F(WrittenKeys, OfAnotherWidthOfExpertsAreRefused) {
  const auto gguf = Convert([](const HfConfig& config, const HfShape&, ArchKeys& keys) {
    return ExpertWidth(1, config, keys);
  });
  ASSERT_FALSE(gguf);
  EXPECT_EQ(gguf.error().code, Code::kCorrupt);
  const uint32_t width = model_->config().expert_intermediate_size;
  EXPECT_THAT(gguf.error().message,
              EndsWith(Cat("config.json: width of an expert: expected ", width,
                           " as in the model, found ", width + 1, " in the metadata of its GGUF")));
}

TEST_F(WrittenKeys, OfAnotherDenseWidthAreRefused) {
  const auto gguf = Convert([](const HfConfig& config, const HfShape&, ArchKeys& keys) {
    keys.U32("feed_forward_length", 1);
    return ExpertWidth(0, config, keys);
  });
  ASSERT_FALSE(gguf);
  EXPECT_THAT(gguf.error().message, EndsWith(" as in the model, found 1 in the metadata of its "
                                             "GGUF"));
  EXPECT_NE(gguf.error().message.find("width of a dense feed-forward part"), std::string::npos);
}

TEST_F(WrittenKeys, OfAnotherSizeOfHeadsAreRefused) {
  const auto gguf = Convert([](const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
    keys.U32("attention.key_length", shape.head_size * 2);
    return ExpertWidth(0, config, keys);
  });
  ASSERT_FALSE(gguf);
  EXPECT_NE(gguf.error().message.find("size of a head: expected "), std::string::npos)
      << gguf.error().message;
}

// fixtures/tiny-moe, converted for work that may need only token ids.
class UsableTokenizer : public testing::Test {
 protected:
  void SetUp() override { fs::copy(fs::path(MOEPACK_SOURCE_DIR) / "fixtures/tiny-moe", model()); }

  fs::path model() const { return dir_ / "model"; }

  void EditTokenizer(const std::function<void(Json&)>& edit) const {
    const fs::path path = model() / "tokenizer.json";
    Json tokenizer = Json::parse(fixtures::ReadFile(path));
    edit(tokenizer);
    fixtures::WriteFile(path, tokenizer.dump());
  }

  Result<GgufModel> Converted(ConvertOptions::Part part) const {
    SHARD_TRY(const MoeModel model, MoeModel::Open(this->model()));
    ConvertOptions options;
    options.part = part;
    SHARD_TRY(GgufModel gguf, ToGguf(model, options));
    for (GgufTensor& tensor : gguf.tensors) tensor.reader = nullptr;  // they borrow the model
    return gguf;
  }

  void ExpectNone(Code code, const std::string& message) const {
    const auto whole = Converted(ConvertOptions::Part::kWhole);
    ASSERT_FALSE(whole);
    EXPECT_EQ(whole.error().code, code);
    EXPECT_THAT(whole.error().message, HasSubstr(message));
    const auto gguf = Converted(ConvertOptions::Part::kTokenizerIfUsable);
    ASSERT_TRUE(gguf) << gguf.error().message;
    ASSERT_TRUE(gguf->no_tokenizer);
    EXPECT_EQ(gguf->no_tokenizer->code, code);
    EXPECT_EQ(gguf->no_tokenizer->message, whole.error().message);
    EXPECT_EQ(gguf->metadata.Find("tokenizer.ggml.model"), nullptr);
    EXPECT_EQ(gguf->metadata.Find("tokenizer.ggml.tokens"), nullptr);
    EXPECT_EQ(gguf->metadata.Uint("tokenizer.ggml.bos_token_id"), 1020u);
    EXPECT_EQ(gguf->metadata.Uint("tokenizer.ggml.eos_token_id"), 1022u);
    EXPECT_FALSE(gguf->tensors.empty());
  }

  fixtures::TempDir dir_;
};

TEST_F(UsableTokenizer, IsConvertedLikeThatOfTheWhole) {
  const auto whole = Converted(ConvertOptions::Part::kWhole);
  const auto gguf = Converted(ConvertOptions::Part::kTokenizerIfUsable);
  ASSERT_TRUE(whole && gguf);
  EXPECT_FALSE(gguf->no_tokenizer);
  ASSERT_EQ(gguf->metadata.entries().size(), whole->metadata.entries().size());
  for (const GgufEntry& entry : whole->metadata.entries()) {
    const GgufValue* value = gguf->metadata.Find(entry.key);
    ASSERT_NE(value, nullptr) << entry.key;
    EXPECT_TRUE(*value == entry.value) << entry.key;
  }
}

TEST_F(UsableTokenizer, IsLeftOutWithTheReasonIfItIsMissing) {
  fs::remove(model() / "tokenizer.json");
  fs::remove(model() / "tokenizer_config.json");
  ExpectNone(Code::kNotFound, "model/tokenizer.json: expected the tokenizer, found no such file");
}

TEST_F(UsableTokenizer, IsLeftOutWithTheReasonIfItIsNotSupported) {
  EditTokenizer([](Json& tokenizer) { tokenizer["pre_tokenizer"] = {{"type", "Whitespace"}}; });
  ExpectNone(Code::kUnsupported, "pre_tokenizer: expected one that llama.cpp has a name for");
}

TEST_F(UsableTokenizer, IsRefusedIfItIsDamaged) {
  EditTokenizer([](Json& tokenizer) { tokenizer["model"]["merges"] = 7; });
  const auto gguf = Converted(ConvertOptions::Part::kTokenizerIfUsable);
  ASSERT_FALSE(gguf);
  EXPECT_EQ(gguf.error().code, Code::kCorrupt);
  EXPECT_THAT(gguf.error().message, HasSubstr("model.merges: expected a list"));
}

// A config that says that head and embedding are tied, and a checkpoint with both.
class TiedHead : public testing::Test {
 protected:
  TiedHead() : sample_(ConvertSample::Qwen3Moe()) { sample_.config["tie_word_embeddings"] = true; }

  static bool HasOutput(const GgufModel& model) {
    return std::any_of(model.tensors.begin(), model.tensors.end(),
                       [](const GgufTensor& tensor) { return tensor.name == "output.weight"; });
  }

  ConvertSample sample_;
};

TEST_F(TiedHead, ThatDiffersFromTheEmbeddingIsKeptWithANote) {
  const auto model = sample_.Convert();
  ASSERT_TRUE(model) << model.error().message;
  ASSERT_TRUE(HasOutput(*model));
  EXPECT_EQ(sample_.Values(*model, "output.weight"), sample_.Values("lm_head.weight"));
  EXPECT_THAT(model->warnings,
              testing::ElementsAre(EndsWith(
                  "config.json: tie_word_embeddings: expected a head that is the embedding, found "
                  "one that differs in type or values; it is kept as output.weight")));
}

TEST_F(TiedHead, ThatIsTheEmbeddingIsLeftOut) {
  sample_.Tensor("lm_head.weight").bytes = sample_.Tensor("model.embed_tokens.weight").bytes;
  const auto model = sample_.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_FALSE(HasOutput(*model));
  EXPECT_THAT(model->warnings, testing::IsEmpty());
}

TEST_F(TiedHead, IsKeptIfOnlyTheConfigOfTheTextModelTiesIt) {
  sample_.config["tie_word_embeddings"] = false;
  sample_.config["text_config"] = {{"tie_word_embeddings", true}};
  const auto model = sample_.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_TRUE(HasOutput(*model));
  EXPECT_THAT(model->warnings,
              testing::ElementsAre(HasSubstr("text_config.tie_word_embeddings: expected")));
}

TEST_F(TiedHead, OfAnotherTypeOrShapeIsKept) {
  sample_.Tensor("lm_head.weight") = {
      "lm_head.weight", "BF16", {5, 4}, std::string(5 * 4 * 2, '\1')};
  const auto model = sample_.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_TRUE(HasOutput(*model));
}

TEST(MlxNames, AreNamedWhereTheNumbersAreNotPacked) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.Remove(".mlp.experts.");
  const std::string at = "model.layers.0.mlp.switch_mlp.";
  sample.Add(at + "gate_proj.weight", {2, 2, 4});
  sample.Add(at + "up_proj.weight", {2, 2, 4});
  sample.Add(at + "down_proj.weight", {2, 4, 2});
  const auto model = sample.Convert();
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::kUnsupported);
  EXPECT_THAT(model.error().message,
              HasSubstr("tensor \"model.layers.0.mlp.switch_mlp.gate_proj.weight\": expected a "
                        "checkpoint of transformers, found one that MLX converted"));
  EXPECT_THAT(model.error().hint, HasSubstr("--format safetensors splits this one"));
}

TEST(PrunedByLayer, HasNoGgufFormSinceLlamaCppHasOneNumberOfExperts) {
  for (const Json& count : {Json({3, 2}), Json(3)}) {
    ConvertSample sample = ConvertSample::PrunedByLayer();
    sample.config["num_experts"] = count;
    const auto model = sample.Convert();
    ASSERT_FALSE(model) << count;
    EXPECT_EQ(model.error().code, Code::kUnsupported);
    EXPECT_THAT(model.error().message,
                EndsWith(": layer 1: expected 3 experts as layer 0 has, since llama.cpp has one "
                         "number for all layers, found 2"));
    EXPECT_EQ(model.error().hint, "--format safetensors splits this model");
  }
}

}  // namespace
}  // namespace moepack
