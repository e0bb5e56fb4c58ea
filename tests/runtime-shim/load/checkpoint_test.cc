// Hugging Face checkpoints and GGUF files: the same model from either.
#include <gmock/gmock.h>

#include <cstring>

#include "fixtures/gguf_writer.h"
#include "fixtures/temp_dir.h"
#include "libshard/convert/gguf_model.h"
#include "runtime-shim/devices/executors.h"
#include "runtime-shim/session/session.h"
#include "tests/runtime-shim/load/sample.h"

namespace moepack::runtime {
namespace {

using testing::Contains;
using testing::HasSubstr;

uint64_t Mapped(const Weights& weights) {
  uint64_t bytes = 0;
  for (const LoadedPart& part : weights.parts) bytes += part.mapped;
  return bytes;
}

uint64_t Bytes(const Weights& weights) {
  uint64_t bytes = 0;
  for (const LoadedPart& part : weights.parts) bytes += part.bytes;
  return bytes;
}

class LoadCheckpoint : public testing::Test {
 protected:
  fixtures::TempDir dir_;
};

TEST_F(LoadCheckpoint, EveryConvertibleLayoutLoadsLikeItsConversion) {
  int loaded = 0;
  for (const fixtures::Layout& layout : fixtures::AllLayouts()) {
    if (!Runs(layout.family)) continue;
    SCOPED_TRACE(layout.name);
    const fs::path source = dir_ / layout.name, gguf = dir_ / (layout.name + "-gguf");
    ASSERT_TRUE(fixtures::MakeCheckpoint(layout.name, source));
    if (!PrepareGguf(tiny::Model(source), {})) continue;  // layouts that do not convert
    WriteGguf(source, gguf, "exact");
    const WeightsPtr checkpoint = Load(source), file = Load(gguf / "m.gguf");
    ASSERT_EQ(checkpoint->sets.size(), 1u);
    ASSERT_EQ(file->sets.size(), 1u);
    ExpectSame(TrunkOf(*file), TrunkOf(*checkpoint));
    ExpectSame(ExpertsOf(file->sets[0]), ExpertsOf(checkpoint->sets[0]));
    EXPECT_EQ(file->moe_layers, checkpoint->moe_layers);
    EXPECT_EQ(file->moe_layers.size(), checkpoint->sets[0].experts_by_layer.size());
    EXPECT_EQ(Mapped(*file), Bytes(*file));
    fs::remove_all(source);
    fs::remove_all(gguf);
    ++loaded;
  }
  EXPECT_GE(loaded, 15);
}

TEST_F(LoadCheckpoint, TheTinyModelLoadsFromEveryForm) {
  WriteGguf(tiny::kSource, dir_ / "whole", "Q8_0");
  WriteGguf(tiny::kSource, dir_ / "split", "Q8_0", 1u << 20);
  const WeightsPtr whole = Load(dir_ / "whole"), split = Load(dir_ / "split");
  ExpectSame(TrunkOf(*whole), TrunkOf(*split));
  ExpectSame(ExpertsOf(whole->sets[0]), ExpertsOf(split->sets[0]));
  std::string part;
  for (const auto& entry : fs::directory_iterator(dir_ / "split"))
    part = std::max(part, entry.path().string());
  ExpectSame(ExpertsOf(whole->sets[0]), ExpertsOf(Load(part)->sets[0]));
  EXPECT_EQ(whole->metadata.Architecture(), "qwen3moe");
  EXPECT_EQ(whole->FindTrunk("output_norm.weight")->shape, (std::vector<uint64_t>{256}));
  EXPECT_EQ(whole->FindTrunk("blk.0.ffn_up_exps.weight"), nullptr);
  EXPECT_FALSE(whole->plan);
}

TEST_F(LoadCheckpoint, AGgufIsMappedWithoutCopies) {
  WriteGguf(tiny::kSource, dir_ / "whole", "Q4_K_M");
  const WeightsPtr weights = Load(dir_ / "whole/m.gguf");
  ASSERT_EQ(weights->parts.size(), 2u);
  EXPECT_EQ(weights->parts[0].label, "trunk");
  EXPECT_EQ(weights->parts[1].label, "model");
  EXPECT_EQ(weights->parts[1].tensors, weights->sets[0].tensors.size());
  EXPECT_EQ(weights->parts[1].bytes, weights->sets[0].bytes());
  EXPECT_EQ(Mapped(*weights), Bytes(*weights));
  EXPECT_EQ(weights->memory.size(), 1u);
}

TEST_F(LoadCheckpoint, ExpertsAreMappedWhereTheyAre) {
  const WeightsPtr weights = Load(tiny::kSource);
  EXPECT_GT(weights->parts[0].mapped, 0u);
  EXPECT_LT(weights->parts[0].mapped, weights->parts[0].bytes);  // norms and routers become F32
  EXPECT_EQ(weights->parts[1].mapped, weights->sets[0].bytes());
  for (const HostTensor& tensor : weights->sets[0].tensors)
    EXPECT_EQ(tensor.bytes.views().size(), 16u) << tensor.name;
}

TEST_F(LoadCheckpoint, OneLayerOfExpertsIsMapped) {
  LoadOptions options;
  options.experts_later = true;
  const auto layer = Load(tiny::kSource, options)->later->Load(1);
  ASSERT_TRUE(layer) << layer.error().message;
  ASSERT_EQ(layer->tensors.size(), 3u);
  EXPECT_EQ(layer->memory.size(), 3u);  // the mapped files
  for (const HostTensor& tensor : layer->tensors) EXPECT_EQ(tensor.bytes.views().size(), 16u);
}

// FP8 with a scale for each block is decoded.
TEST_F(LoadCheckpoint, ConvertedExpertsAreCopied) {
  ASSERT_TRUE(fixtures::MakeCheckpoint("minimax-m2", dir_ / "fp8"));
  const WeightsPtr weights = Load(dir_ / "fp8");
  EXPECT_EQ(weights->parts[1].mapped, 0u);
  EXPECT_GT(weights->parts[1].bytes, 0u);
}

// Copies the tiny model. The data of its shards begin `shift` bytes later.
void CopyShifted(size_t shift, const fs::path& to) {
  fs::create_directory(to);
  for (const auto& entry : fs::directory_iterator(tiny::kSource)) {
    std::string bytes = fixtures::ReadFile(entry.path());
    if (entry.path().extension() == ".safetensors") {
      uint64_t length = 0;
      std::memcpy(&length, bytes.data(), sizeof(length));
      bytes = fixtures::WithHeader(bytes.substr(sizeof(length), length) + std::string(shift, ' '),
                                   bytes.substr(sizeof(length) + length));
    }
    fixtures::WriteFile(to / entry.path().filename(), bytes);
  }
}

TEST_F(LoadCheckpoint, OnlyExpertsAtOddAddressesAreCopied) {
  const WeightsPtr plain = Load(tiny::kSource);
  for (const size_t shift : {1u, 2u}) {
    const fs::path shifted = dir_ / std::to_string(shift);
    CopyShifted(shift, shifted);
    const WeightsPtr weights = Load(shifted);
    EXPECT_EQ(weights->parts[1].mapped, shift == 1 ? 0 : weights->sets[0].bytes());
    ExpectSame(ExpertsOf(plain->sets[0]), ExpertsOf(weights->sets[0]));
    ExpectSame(TrunkOf(*plain), TrunkOf(*weights));
  }
}

std::vector<float> LogitsOfSource(const fs::path& source) {
  constexpr uint32_t kTokens[] = {3, 17, 5, 5, 39, 0, 21, 8, 30, 2, 11};
  const WeightsPtr weights = Load(source);
  const auto executor = OpenExecutor("cpu", {});
  EXPECT_TRUE(executor);
  const auto model = Model::Load(weights, **executor);
  EXPECT_TRUE(model) << model.error().message;
  const auto session =
      Session::Open(**model, EligibleExperts(*weights, std::nullopt, false), SessionOptions());
  EXPECT_TRUE(session) << session.error().message;
  const auto logits = (*session)->Feed(kTokens, LogitsOf::kAll);
  EXPECT_TRUE(logits) << logits.error().message;
  return *logits;
}

TEST_F(LoadCheckpoint, GivesTheLogitsOfItsConversionBitForBit) {
  WriteGguf(tiny::kSource, dir_ / "gguf", "exact");
  CopyShifted(1, dir_ / "copied");
  const std::vector<float> mapped = LogitsOfSource(tiny::kSource);
  EXPECT_EQ(mapped, LogitsOfSource(dir_ / "gguf/m.gguf"));
  EXPECT_EQ(mapped, LogitsOfSource(dir_ / "copied"));
}

TEST_F(LoadCheckpoint, AnyNumberOfThreadsGivesTheSameBytes) {
  LoadOptions one, many;
  one.jobs = 1;
  many.jobs = 7;
  const WeightsPtr a = Load(tiny::kSource, one), b = Load(tiny::kSource, many);
  ExpectSame(TrunkOf(*a), TrunkOf(*b));
  ExpectSame(ExpertsOf(a->sets[0]), ExpertsOf(b->sets[0]));
}

TEST_F(LoadCheckpoint, BlocksForMultiTokenPredictionAreLeftOut) {
  ASSERT_TRUE(fixtures::MakeCheckpoint("glm-4.5", dir_ / "glm"));
  WriteGguf(dir_ / "glm", dir_ / "gguf", "exact");
  for (const fs::path& source : {dir_ / "glm", dir_ / "gguf"}) {
    const WeightsPtr weights = Load(source);
    EXPECT_THAT(weights->notes, Contains(HasSubstr("1 block for multi-token prediction")));
    const uint32_t layers = fixtures::FindLayout("glm-4.5")->layers;
    EXPECT_LT(weights->moe_layers.rbegin()->first, layers);
    for (const auto& [key, slice] : TrunkOf(*weights))
      EXPECT_THAT(key.first, testing::Not(HasSubstr("nextn")));
  }
}

TEST_F(LoadCheckpoint, EveryExpertIsEligibleWithoutAPlan) {
  const WeightsPtr weights = Load(tiny::kSource);
  EXPECT_EQ(EligibleExperts(*weights, std::nullopt, false), weights->sets[0].experts_by_layer);
  EXPECT_EQ(EligibleExperts(*weights, 1, true), weights->sets[0].experts_by_layer);
  EXPECT_EQ(FormatIds(weights->sets[0].experts_by_layer.at(2)), "0-15");
}

TEST_F(LoadCheckpoint, GroupsOfAnUnsplitModelAreRefused) {
  EXPECT_EQ(Refusal(tiny::kSource, Groups({0})).code, Code::kInvalidArgument);
  LoadOptions overlay;
  overlay.overlay_version = "one";
  EXPECT_THAT(Refusal(tiny::kSource, overlay).message,
              HasSubstr("found a model that is not split"));
}

TEST_F(LoadCheckpoint, AnIndexAloneCannotBeLoaded) {
  fs::copy(tiny::kSource / "model.safetensors.index.json", dir_.path());
  fs::copy(tiny::kSource / "config.json", dir_.path());
  EXPECT_EQ(Refusal(dir_ / "model.safetensors.index.json").code, Code::kNotFound);
}

TEST_F(LoadCheckpoint, LoadsForTokenIdsWithoutATokenizer) {
  fs::copy(tiny::kSource, dir_ / "ids");
  fs::remove(dir_ / "ids/tokenizer.json");
  fs::remove(dir_ / "ids/tokenizer_config.json");
  const WeightsPtr weights = Load(dir_ / "ids"), whole = Load(tiny::kSource);
  ASSERT_TRUE(weights->no_tokenizer);
  EXPECT_EQ(weights->no_tokenizer->code, Code::kNotFound);
  EXPECT_EQ(weights->no_tokenizer->message, (dir_ / "ids/tokenizer.json").string() +
                                                ": expected the tokenizer, found no such file");
  EXPECT_THAT(weights->notes,
              Contains("only token ids, no text: " + weights->no_tokenizer->message));
  EXPECT_FALSE(whole->no_tokenizer);
  ExpectSame(TrunkOf(*whole), TrunkOf(*weights));
  ExpectSame(ExpertsOf(whole->sets[0]), ExpertsOf(weights->sets[0]));
}

TEST_F(LoadCheckpoint, FamiliesWithoutConversionAreRefusedByName) {
  ASSERT_TRUE(fixtures::MakeCheckpoint("dbrx", dir_ / "dbrx"));
  const Error error = Refusal(dir_ / "dbrx");
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("dbrx"));
}

// The type of the tensor in the file, found by its name and shape, becomes another of the same
// size.
TEST_F(LoadCheckpoint, ATypeWithoutADecoderIsRefusedByTensorAndType) {
  WriteGguf(tiny::kSource, dir_ / "whole", "Q8_0");
  std::string bytes = fixtures::ReadFile(dir_ / "whole/m.gguf");
  const std::string name = "output_norm.weight";
  const size_t at = bytes.find(name) + name.size() + 4 + 8;  // one dimension of 8 bytes
  ASSERT_EQ(bytes[at], 0);                                   // F32
  bytes[at] = 26;                                            // I32
  fixtures::WriteFile(dir_ / "whole/m.gguf", bytes);
  const Error error = Refusal(dir_ / "whole/m.gguf");
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("\"output_norm.weight\": type: expected one that can be "
                                       "decoded, found i32"));
}

}  // namespace
}  // namespace moepack::runtime
