#include "libshard/model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "fixtures/generator.h"
#include "fixtures/gguf_writer.h"
#include "fixtures/safetensors_writer.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"
#include "tests/libshard/convert/sample.h"
#include "tests/libshard/model/model_for_test.h"

namespace moepack {
namespace {

using fixtures::TempDir;
using testing::HasSubstr;

constexpr const char* kTiny = MOEPACK_SOURCE_DIR "/fixtures/tiny-moe";

// Pruned layer by layer: layer 0 has three experts, layer 1 two.
TEST(MoeModel, HasAsManyExpertsInEachLayerAsItsTensors) {
  for (const Json& count : {Json({3, 2}), Json(3)}) {
    ConvertSample sample = ConvertSample::PrunedByLayer();
    sample.config["num_experts"] = count;
    const auto model = sample.Open();
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->FindLayer(0)->expert_count, 3u);
    EXPECT_EQ(model->FindLayer(1)->expert_count, 2u);
    EXPECT_EQ(model->max_experts(), 3u);
  }
}

TEST(MoeModel, RefusesNumbersOfExpertsThatNoLayerHas) {
  const std::pair<Json, const char*> cases[] = {
      {2, "num_experts: expected 3 as layer 0 has, found 2"},
      {4, "num_experts: expected 3 as layer 0 has, found 4"},
      {Json({2, 3}), "num_experts: expected 3 as layer 0 has, found 2"},
      {Json({3, 3}), "num_experts: expected 2 as layer 1 has, found 3"}};
  for (const auto& [count, message] : cases) {
    ConvertSample sample = ConvertSample::PrunedByLayer();
    sample.config["num_experts"] = count;
    const auto model = sample.Open();
    ASSERT_FALSE(model) << count;
    EXPECT_EQ(model.error().code, Code::kCorrupt);
    EXPECT_THAT(model.error().message, HasSubstr(message));
  }
}

TEST(MoeModel, ReadsTheTinyModel) {
  const auto model = MoeModel::Open(kTiny);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->family().name, "qwen3-moe");
  ASSERT_EQ(model->layers().size(), 3u);
  for (const MoeLayer& layer : model->layers()) {
    EXPECT_EQ(layer.expert_count, 16u);
    EXPECT_EQ(layer.top_k, 2u);
    EXPECT_EQ(layer.expert_bytes, 3u * 256 * 256 * 2);
    EXPECT_FALSE(layer.mtp);
  }
  EXPECT_EQ(model->tensors().size(), model->checkpoint().tensors().size());
  EXPECT_EQ(model->FindLayer(3), nullptr);
  EXPECT_EQ(model->max_experts(), 16u);
  EXPECT_EQ(model->routing().gating, Gating::kSoftmax);
}

TEST(MoeModel, VersionChangesWithRevisionAndConfig) {
  const TempDir dir;
  ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir.path()));
  const std::string before = MoeModel::Open(dir.path())->Version("");
  EXPECT_EQ(before.size(), 16u);
  EXPECT_EQ(MoeModel::Open(dir.path())->Version(""), before);
  EXPECT_NE(MoeModel::Open(dir.path())->Version("main"), before);
  std::ofstream(dir / "config.json", std::ios::app) << "\n";
  EXPECT_NE(MoeModel::Open(dir.path())->Version(""), before);
}

TEST(MoeModel, VersionDiffersBetweenFineTunes) {
  const TempDir dir;
  fixtures::Options options;
  ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir / "a", options));
  options.seed = 2;
  ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir / "b", options));
  EXPECT_NE(MoeModel::Open(dir / "a")->Version(""), MoeModel::Open(dir / "b")->Version(""));
  ModelOptions names;
  names.sample_weights = false;
  EXPECT_EQ(MoeModel::Open(dir / "a", names)->Version(""),
            MoeModel::Open(dir / "b", names)->Version(""));
}

TEST(MoeModel, RecognizesTheFamilyByTensorNamesWithoutAConfig) {
  const TempDir dir;
  ASSERT_TRUE(fixtures::MakeCheckpoint("mixtral", dir.path()));
  fs::remove(dir / "config.json");
  const auto model = MoeModel::Open(dir.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->layers()[0].top_k, 0u);
  EXPECT_THAT(model->warnings(), testing::Contains(HasSubstr("no config.json")));
}

TEST(MoeModel, UsesAConfigElsewhereIfGiven) {
  const TempDir dir;
  ASSERT_TRUE(fixtures::MakeCheckpoint("mixtral", dir / "model"));
  fs::rename(dir / "model/config.json", dir / "other.json");
  ModelOptions options;
  options.config_file = (dir / "other.json").string();
  const auto model = MoeModel::Open(dir / "model", options);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_GT(model->layers()[0].top_k, 0u);
  options.config_file = (dir / "absent.json").string();
  EXPECT_EQ(MoeModel::Open(dir / "model", options).error().code, Code::kNotFound);
}

// A packed tensor of two experts and its possible companions, in one layer of a family file's
// model.
class PackedScales : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fixtures::WriteFile(dir_ / "family.json", R"({
      "name": "toy", "routing": {"gating": "softmax", "normalize": true},
      "rules": [
        {"pattern": "l.{L}.router", "part": "router", "role": "router", "expert_axis": 0},
        {"pattern": "l.{L}.experts.up.{W}", "part": "expert", "role": "up", "expert_axis": 0}]})"));
    options_.family_file = (dir_ / "family.json").string();
  }
  Result<MoeModel> Open(const std::vector<fixtures::RawTensor>& scales) {
    std::vector<fixtures::RawTensor> tensors = {
        {"l.0.router", "U8", {2, 3}, std::string(6, 'r')},
        {"l.0.experts.up.weight", "U8", {2, 5}, std::string(10, 'w')}};
    tensors.insert(tensors.end(), scales.begin(), scales.end());
    EXPECT_TRUE(fixtures::WriteSafetensors(dir_ / "m.safetensors", tensors));
    return MoeModel::Open(dir_ / "m.safetensors", options_);
  }
  TempDir dir_;
  ModelOptions options_;
};

TEST_F(PackedScales, AreSplitIfThereIsOnePerExpertAndCopiedIfThereIsOneForAll) {
  const auto model = Open({{"l.0.experts.up.input_scale", "U8", {}, "i"},
                           {"l.0.experts.up.weight_scale", "U8", {2}, "ab"}});
  ASSERT_TRUE(model) << model.error().message;
  for (const ModelTensor& tensor : model->tensors()) {
    EXPECT_EQ(tensor.axis.has_value(), tensor.leaf != "input_scale") << model->entry(tensor).name;
    EXPECT_EQ(tensor.axis.value_or(0), 0u) << model->entry(tensor).name;
  }
}

TEST_F(PackedScales, AnyOtherCountIsCorrupt) {
  const auto model = Open({{"l.0.experts.up.weight_scale", "U8", {3}, "abc"}});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::kCorrupt);
  EXPECT_THAT(model.error().message, HasSubstr("expected 2 (experts of layer 0), found 3"));
}

TEST(MoeModel, AnUnknownTensorIsAnErrorAndNamed) {
  const TempDir dir;
  ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir.path()));
  fs::remove(dir / "model.safetensors.index.json");
  ASSERT_TRUE(fixtures::WriteSafetensors(dir / "zz.safetensors",
                                         {{"model.layers.0.mlp.new_experts.0.w", "U8", {1}, "x"}}));
  const auto model = MoeModel::Open(dir.path());
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::kUnsupported);
  EXPECT_THAT(model.error().message, HasSubstr("\"model.layers.0.mlp.new_experts.0.w\""));
  EXPECT_THAT(model.error().hint, HasSubstr("--family"));
}

// MiniGguf on disk, opened.
class GgufModels : public testing::Test {
 protected:
  Result<MoeModel> Open(const fixtures::GgufFile& file, const ModelOptions& options = {}) {
    EXPECT_TRUE(fixtures::WriteFile(dir_ / "m.gguf", fixtures::GgufBytes(file)));
    return MoeModel::Open(dir_ / "m.gguf", options);
  }
  const TempDir dir_;
};

TEST_F(GgufModels, TakeTheirConfigFromTheMetadata) {
  const auto model = Open(fixtures::MiniGguf("deepseek2", 2, 4));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->family().name, "gguf");
  EXPECT_TRUE(model->has_config());
  EXPECT_EQ(model->config_path(), dir_ / "m.gguf");
  EXPECT_EQ(model->config().architecture, "deepseek2");
  ASSERT_EQ(model->layers().size(), 2u);
  EXPECT_EQ(model->layers()[0].expert_count, 4u);
  EXPECT_EQ(model->layers()[0].top_k, 2u);
  EXPECT_EQ(model->layers()[0].expert_bytes, 3u * 2 * 2 * 4);
  EXPECT_EQ(model->routing().gating, Gating::kSoftmax);
  EXPECT_FALSE(model->routing().normalize);
}

TEST_F(GgufModels, MayBeOfAnyArchitectureWithPackedExperts) {
  const auto model = Open(fixtures::MiniGguf("moe-of-tomorrow", 1, 4));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->routing().gating, Gating::kSoftmax);
  EXPECT_THAT(model->warnings(), testing::Contains(HasSubstr("\"moe-of-tomorrow\"")));
}

TEST_F(GgufModels, ChangeTheirVersionWithMetadataAndWeights) {
  fixtures::GgufFile file = fixtures::MiniGguf("qwen3moe", 1, 4);
  const std::string before = Open(file)->Version("");
  EXPECT_EQ(Open(file)->Version(""), before);
  file.tensors[0].bytes[0] ^= 1;
  const std::string weights = Open(file)->Version("");
  EXPECT_NE(weights, before);
  file.pairs.push_back(fixtures::GgufPairU32("qwen3moe.context_length", 7));
  EXPECT_NE(Open(file)->Version(""), weights);
}

TEST_F(GgufModels, KeepMtpBlocksApart) {
  fixtures::GgufFile file = fixtures::MiniGguf("glm4moe", 2, 4);
  file.pairs.push_back(fixtures::GgufPairU32("glm4moe.nextn_predict_layers", 1));
  const auto model = Open(file);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->config().layers, 1u);
  EXPECT_FALSE(model->layers()[0].mtp);
  EXPECT_TRUE(model->layers()[1].mtp);
}

TEST_F(GgufModels, RefuseASeparateConfig) {
  ModelOptions options;
  options.config_file = "config.json";
  const auto model = Open(fixtures::MiniGguf("qwen3moe", 1, 4), options);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::kInvalidArgument);
  EXPECT_THAT(model.error().message,
              HasSubstr("--config has no effect: a GGUF model has its own metadata"));
}

TEST_F(GgufModels, AFamilyFileTakesWhatTheTableRefuses) {
  fixtures::GgufFile file = fixtures::MiniGguf("qwen3moe", 1, 4);
  file.tensors.push_back({.name = "blk.0.ffn_mystery.weight",
                          .dims = {2, 4},
                          .type = fixtures::kGgufTypeF32,
                          .bytes = std::string(32, 'm')});
  EXPECT_EQ(Open(file).error().code, Code::kUnsupported);
  ASSERT_TRUE(fixtures::WriteFile(dir_ / "family.json", R"({"name": "mystery", "rules": [
      {"pattern": "blk.{L}.ffn_{*}_exps.{W}", "part": "expert", "role": "up", "expert_axis": 0},
      {"pattern": "blk.{L}.ffn_mystery.{W}", "part": "router", "role": "m", "expert_axis": 0},
      {"pattern": "{**}", "part": "trunk", "role": "other"}]})"));
  ModelOptions options;
  options.family_file = dir_ / "family.json";
  const auto model = Open(file, options);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->family().name, "mystery");
}

TEST_F(GgufModels, AnUnknownTensorWithoutTheExpertsLengthIsTrunk) {
  fixtures::GgufFile file = fixtures::MiniGguf("qwen3moe", 1, 4);
  file.tensors.push_back({.name = "blk.0.ffn_mystery.weight",
                          .dims = {2, 3},
                          .type = fixtures::kGgufTypeF32,
                          .bytes = std::string(24, 'm')});
  const auto model = Open(file);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(PartName(model->tensors().back().part), "trunk");
}

using Shape = std::vector<uint64_t>;

TensorRule Rule(Part part, const std::string& role = "") {
  TensorRule rule;
  rule.part = part;
  rule.role = role;
  return rule;
}

ModelTensor In(std::optional<uint32_t> layer, std::string_view leaf = "weight", bool mtp = false) {
  ModelTensor tensor;
  tensor.layer = layer;
  tensor.leaf = leaf;
  tensor.mtp = mtp;
  return tensor;
}

void AddExperts(ModelForTest& model, uint32_t layer, uint64_t experts, const Shape& gate) {
  for (uint64_t expert = 0; expert < experts; ++expert) {
    model.Tensor(Rule(Part::kExpert, "gate"), In(layer), "BF16", gate);
    model.Tensor(Rule(Part::kExpert, "up"), In(layer), "BF16", gate);
    model.Tensor(Rule(Part::kExpert, "down"), In(layer), "BF16", {gate[1], gate[0]});
  }
}

// The tensors of a decoder with grouped-query attention and no biases, as the Hugging Face
// checkpoints have them.
struct DecoderSizes {
  uint32_t layers, experts, top_k;
  uint64_t hidden, width, vocabulary, query, key_value, head;
  bool query_norms;
};

MoeModel Decoder(const DecoderSizes& s) {
  ModelForTest model;
  const TensorRule trunk = Rule(Part::kTrunk);
  model.Layers(s.layers, s.experts, s.top_k);
  model.Tensor(trunk, In({}), "BF16", {s.vocabulary, s.hidden});
  model.Tensor(trunk, In({}), "BF16", {s.vocabulary, s.hidden});
  model.Tensor(trunk, In({}), "BF16", {s.hidden});
  for (uint32_t layer = 0; layer < s.layers; ++layer) {
    for (const Shape& shape :
         {Shape{s.query, s.hidden}, Shape{s.key_value, s.hidden}, Shape{s.key_value, s.hidden},
          Shape{s.hidden, s.query}, Shape{s.hidden}, Shape{s.hidden}}) {
      model.Tensor(trunk, In(layer), "BF16", shape);
    }
    if (s.query_norms) {
      model.Tensor(trunk, In(layer), "BF16", {s.head});
      model.Tensor(trunk, In(layer), "BF16", {s.head});
    }
    model.Tensor(Rule(Part::kRouter), In(layer), "BF16", {s.experts, s.hidden});
    AddExperts(model, layer, s.experts, {s.width, s.hidden});
  }
  return model.Build();
}

TEST(CountParameters, GivesThePublishedCountsOfQwen3_30B_A3B) {
  const ParameterCount count =
      CountParameters(Decoder({48, 128, 8, 2048, 768, 151936, 4096, 512, 128, true}));
  EXPECT_EQ(count.total, 30'532'122'624u);
  EXPECT_EQ(count.active, 3'353'032'704u);
  EXPECT_EQ(FormatParameters(count.total), "31B");
  EXPECT_EQ(count.mtp, 0u);
  EXPECT_EQ(count.other_modalities, 0u);
}

TEST(CountParameters, GivesThePublishedCountsOfMixtral8x7B) {
  const ParameterCount count =
      CountParameters(Decoder({32, 8, 2, 4096, 14336, 32000, 4096, 1024, 128, false}));
  EXPECT_EQ(count.total, 46'702'792'704u);
  EXPECT_EQ(count.active, 12'879'925'248u);
}

// Two experts, one of them active, and one more tensor.
ParameterCount CountWith(const TensorRule& rule, const ModelTensor& tensor,
                         const std::string& dtype, const Shape& shape, ModelConfig config = {}) {
  return CountParameters(
      ModelForTest(std::move(config)).Layers(1, 2, 1).Tensor(rule, tensor, dtype, shape).Build());
}

TEST(CountParameters, CountsSharedExpertsAndBiasesAsActive) {
  const ParameterCount shared = CountWith(Rule(Part::kShared), In(0), "BF16", {4, 6});
  EXPECT_EQ(shared.total, 24u);
  EXPECT_EQ(shared.active, 24u);
  EXPECT_EQ(CountWith(Rule(Part::kTrunk), In(0, "bias"), "BF16", {6}).active, 6u);
}

TEST(CountParameters, CountsTopKOfTheExpertsOfEachLayer) {
  ModelForTest model;
  model.Layer({0, 4, 1, 0, false}).Layer({1, 8, 3, 0, false});
  model.Tensor(Rule(Part::kExpert), In(0, ""), "BF16", {4, 10});
  model.Tensor(Rule(Part::kExpert), In(1, ""), "BF16", {8, 10});
  const ParameterCount count = CountParameters(model.Build());
  EXPECT_EQ(count.total, 120u);
  EXPECT_EQ(count.active, 10u + 30u);
}

TEST(CountParameters, SkipsScalesZeroPointsShapesAndExpertTables) {
  const TensorRule expert = Rule(Part::kExpert);
  for (const char* leaf : {"weight_scale", "weight_scale_inv", "weight_zero_point", "scales",
                           "biases", "qzeros", "g_idx", "input_scale", "weight_scale_2"}) {
    EXPECT_EQ(CountWith(expert, In(0, leaf), "F32", {4, 4}).total, 0u) << leaf;
  }
  EXPECT_EQ(CountWith(expert, In(0, "weight_shape"), "I64", {2}).total, 0u);
  TensorRule table = Rule(Part::kRouter);
  table.holds_expert_ids = true;
  EXPECT_EQ(CountWith(table, In(0), "F32", {4, 4}).total, 0u);
  EXPECT_EQ(CountWith(Rule(Part::kTrunk), In({}, ""), "I64", {1, 512}).total, 0u);
}

TEST(CountParameters, UnpacksIntegersByTheWidthOfTheConfig) {
  ModelConfig config;
  config.quant_bits = 8;
  const TensorRule expert = Rule(Part::kExpert);
  EXPECT_EQ(CountWith(expert, In(0, "weight_packed"), "I32", {4, 16}).total, 512u);
  EXPECT_EQ(CountWith(expert, In(0, "qweight"), "I32", {4, 16}).total, 512u);
  EXPECT_EQ(CountWith(expert, In(0, "qweight"), "I32", {4, 16}, config).total, 256u);
  EXPECT_EQ(CountWith(expert, In(0, "weight"), "U32", {4, 16}).total, 512u);
  EXPECT_EQ(CountWith(expert, In(0, "weight"), "U32", {4, 16}, config).total, 256u);
  config.quant_bits = 3;  // 32 values in three words
  EXPECT_EQ(CountWith(expert, In(0, "weight"), "U32", {4, 6}, config).total, 256u);
}

// Bits may differ between modules, and the config has one number.
TEST(CountParameters, CountsMatricesOfGptqAndAwqByTheTensorsBesideThem) {
  const fixtures::TempDir dir;
  const fixtures::CheckpointSpec spec = fixtures::DescribeCheckpoint("qwen3-moe");
  const auto write = [&](const char* name, const std::vector<fixtures::TensorHead>& tensors,
                         const Json& config) {
    uint64_t size = 0;
    for (const fixtures::TensorHead& tensor : tensors) size += tensor.bytes;
    const std::string header = fixtures::SafetensorsHeader(tensors, {});
    std::filesystem::create_directories(dir / name);
    const auto path = dir / name / "model.safetensors";
    EXPECT_TRUE(fixtures::WriteFile(path, header));
    std::filesystem::resize_file(path, header.size() + size);
    EXPECT_TRUE(fixtures::WriteFile(dir / name / "config.json", config.dump()));
    const auto model = MoeModel::Open(dir / name);
    EXPECT_TRUE(model) << model.error().message;
    return model ? CountParameters(*model) : ParameterCount();
  };
  Json config = Json::parse(spec.config);
  std::vector<fixtures::TensorHead> packed;
  const auto add = [&](const std::string& name, const char* dtype, std::vector<uint64_t> shape) {
    uint64_t bytes = std::string_view(dtype) == "F16" ? 2 : 4;
    for (const uint64_t size : shape) bytes *= size;
    packed.push_back({name, dtype, std::move(shape), bytes});
  };
  for (const fixtures::TensorHead& tensor : spec.tensors) {
    const size_t end = tensor.name.size() - 6;  // "weight"
    const std::string stem = tensor.name.substr(0, end);
    const bool down = stem.ends_with("down_proj."), up = stem.ends_with("up_proj.");
    if (!down && !up) {
      packed.push_back(tensor);
      continue;
    }
    const uint64_t rows = tensor.shape[0], columns = tensor.shape[1];
    add(stem + "scales", "F16", {columns / 16, rows});
    if (down) {  // GPTQ, 8 bits
      add(stem + "qweight", "I32", {columns / 4, rows});
      add(stem + "g_idx", "I32", {columns});
    } else {  // AWQ, 8 bits
      add(stem + "qweight", "I32", {columns, rows / 4});
    }
  }
  const ParameterCount plain = write("plain", spec.tensors, config);
  config["quantization_config"] = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 16}};
  const ParameterCount mixed = write("mixed", packed, config);
  EXPECT_EQ(mixed.total, plain.total);
  EXPECT_EQ(mixed.active, plain.active);
}

TEST(CountParameters, CountsTwoWeightsPerByteOfFourBitFloats) {
  const TensorRule expert = Rule(Part::kExpert, "gate");
  EXPECT_EQ(CountWith(expert, In(0, "blocks"), "U8", {2, 8, 3, 16}).total, 2u * 8 * 3 * 32);
  EXPECT_EQ(CountWith(expert, In(0, "weight_packed"), "U8", {8, 16}).total, 256u);
  ModelConfig config;
  EXPECT_EQ(CountWith(expert, In(0), "U8", {8, 16}, config).total, 128u);
  config.quant_method = "modelopt";
  EXPECT_EQ(CountWith(expert, In(0), "U8", {8, 16}, config).total, 256u);
  config.quant_method = "compressed-tensors";
  EXPECT_EQ(CountWith(expert, In(0), "U8", {8, 16}, config).total, 256u);
  EXPECT_EQ(CountWith(expert, In(0), "F8_E4M3", {8, 16}, config).total, 128u);
}

TEST(CountParameters, DistinguishesPairsFromInt8ByTheWidthOfTheRows) {
  ModelConfig config;
  config.hidden_size = 32;
  config.expert_intermediate_size = 16;
  EXPECT_EQ(CountWith(Rule(Part::kExpert, "gate"), In(0), "I8", {16, 16}, config).total, 512u);
  EXPECT_EQ(CountWith(Rule(Part::kExpert, "down"), In(0), "I8", {32, 8}, config).total, 512u);
  EXPECT_EQ(CountWith(Rule(Part::kExpert, "gate"), In(0), "I8", {16, 32}, config).total, 512u);
  EXPECT_EQ(CountWith(Rule(Part::kExpert, "down"), In(0), "I8", {32, 16}, config).total, 512u);
}

TEST(CountParameters, CountsPredictionBlocksAndTowersSeparately) {
  ModelForTest model;
  model.Layer({0, 2, 1, 0, false}).Layer({1, 2, 1, 0, true});
  model.Tensor(Rule(Part::kTrunk), In(0), "BF16", {7});
  model.Tensor(Rule(Part::kExpert), In(1, "weight", true), "BF16", {2, 50});
  model.Tensor(Rule(Part::kTrunk, "vision"), In({}), "BF16", {11});
  model.Tensor(Rule(Part::kTrunk, "audio"), In({}), "BF16", {13});
  const ParameterCount count = CountParameters(model.Build());
  EXPECT_EQ(count.total, 7u);
  EXPECT_EQ(count.active, 7u);
  EXPECT_EQ(count.mtp, 100u);
  EXPECT_EQ(count.other_modalities, 24u);
}

TEST(CountParameters, IsZeroWhereTopKOrShapesAreUnknown) {
  ModelForTest model;
  model.Layers(1, 2, 0).Tensor(Rule(Part::kExpert), In(0), "BF16", {2, 50});
  EXPECT_EQ(CountParameters(model.Build()).total, 100u);
  EXPECT_EQ(CountParameters(model.Build()).active, 0u);
  EXPECT_EQ(CountParameters(model.NamesOnly().Build()).total, 0u);
}

TEST(OwnHead, IsOneWithOtherBytesThanTheEmbedding) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  EXPECT_TRUE(*sample.Open()->HasOwnHead());
  std::string bytes = sample.Tensor("model.embed_tokens.weight").bytes;
  sample.Tensor("lm_head.weight").bytes = bytes;
  EXPECT_FALSE(*sample.Open()->HasOwnHead());
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  sample.Tensor("lm_head.weight").bytes = bytes;
  EXPECT_TRUE(*sample.Open()->HasOwnHead()) << "the last byte counts, too";
  sample.Remove("lm_head");
  EXPECT_FALSE(*sample.Open()->HasOwnHead());
}

TEST(OwnHead, IsFoundInTablesThatAreReadInPieces) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  const uint64_t rows = (5u << 20) / 16;
  sample.Reshape("model.embed_tokens.weight", {rows, 4});
  sample.Reshape("lm_head.weight", {rows, 4});
  std::string bytes = sample.Tensor("model.embed_tokens.weight").bytes;
  sample.Tensor("lm_head.weight").bytes = bytes;
  EXPECT_FALSE(*sample.Open()->HasOwnHead());
  bytes[4u << 20] = static_cast<char>(bytes[4u << 20] ^ 1);
  sample.Tensor("lm_head.weight").bytes = bytes;
  EXPECT_TRUE(*sample.Open()->HasOwnHead());
}

TEST(OwnHead, IsLookedForOnlyOnceForAllCopiesOfAModel) {
  const ConvertSample sample = ConvertSample::Qwen3Moe();
  const auto model = sample.Open();
  ASSERT_TRUE(model) << model.error().message;
  const MoeModel copy = *model;
  EXPECT_TRUE(*model->HasOwnHead());
  std::filesystem::remove(sample.path() / "model.safetensors");
  EXPECT_TRUE(*copy.HasOwnHead());
}

TEST(OwnHead, IsAnErrorIfTheFileHasChangedSinceItWasOpened) {
  const ConvertSample sample = ConvertSample::Qwen3Moe();
  const auto model = sample.Open();
  ASSERT_TRUE(model) << model.error().message;
  std::filesystem::remove(sample.path() / "model.safetensors");
  EXPECT_FALSE(model->HasOwnHead());
}

}  // namespace

}  // namespace moepack
