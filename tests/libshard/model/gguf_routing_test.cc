#include "libshard/model/gguf_routing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "libshard/model/gguf_architectures.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;

GgufMetadata MinimalRouting(const std::string& architecture) {
  GgufMetadata metadata;
  metadata.Set("general.architecture", GgufValue::String(architecture));
  metadata.Set(architecture + ".block_count", GgufValue::U32(6));
  metadata.Set(architecture + ".expert_count", GgufValue::U32(8));
  return metadata;
}

struct ReadRouting {
  explicit ReadRouting(const GgufMetadata& metadata) {
    Result<StatedRouting> read = ReadGgufRouting("f.gguf", metadata, warnings);
    if (read) {
      routing = *read;
    } else {
      error = read.error();
    }
  }
  StatedRouting routing;
  std::vector<std::string> warnings;
  Error error = {Code::kIo, ""};
};

TEST(GgufRouting, FollowsTheArchitecture) {
  const struct {
    const char* architecture;
    Gating gating;
    bool normalize;
  } rows[] = {{"llama", Gating::kSoftmax, true},
              {"qwen2moe", Gating::kSoftmax, false},
              {"qwen3moe", Gating::kSoftmax, true},
              {"qwen3next", Gating::kSoftmax, true},
              {"qwen35moe", Gating::kSoftmax, true},
              {"olmoe", Gating::kSoftmax, false},
              {"granitemoe", Gating::kSoftmax, true},
              {"phimoe", Gating::kSoftmax, true},
              {"deepseek2", Gating::kSoftmax, false},
              {"glm4moe", Gating::kSigmoid, false},
              {"gpt-oss", Gating::kSoftmaxAfterTopK, false},
              {"llama4", Gating::kSigmoidAfterTopK, false},
              {"ernie4_5-moe", Gating::kSoftmax, true},
              {"hunyuan-moe", Gating::kSoftmax, true},
              {"bailingmoe", Gating::kSoftmax, false},
              {"mimo2", Gating::kSigmoid, true},
              {"deepseek32", Gating::kSoftmax, false},
              {"glm-dsa", Gating::kSigmoid, false}};
  for (const auto& row : rows) {
    const ReadRouting read(MinimalRouting(row.architecture));
    EXPECT_EQ(read.routing.gating, row.gating) << row.architecture;
    EXPECT_THAT(read.routing.normalize, Optional(row.normalize)) << row.architecture;
    EXPECT_THAT(read.warnings, IsEmpty()) << row.architecture;
  }
}

TEST(GgufRouting, UsesKeysThatTheGraphReads) {
  GgufMetadata metadata = MinimalRouting("deepseek2");
  metadata.Set("deepseek2.expert_gating_func", GgufValue::U32(2));
  metadata.Set("deepseek2.expert_weights_norm", GgufValue::Bool(true));
  metadata.Set("deepseek2.expert_weights_scale", GgufValue::F32(2.5f));
  const ReadRouting read(metadata);
  EXPECT_EQ(read.routing.gating, Gating::kSigmoid);
  EXPECT_THAT(read.routing.normalize, Optional(true));
  EXPECT_THAT(read.routing.scale, Optional(2.5));
  // Built into the graphs of Qwen3 and MiniMax-M2: the keys are not read, whatever they say.
  GgufMetadata fixed = MinimalRouting("qwen3moe");
  fixed.Set("qwen3moe.expert_gating_func", GgufValue::U32(2));
  fixed.Set("qwen3moe.expert_weights_norm", GgufValue::Bool(false));
  EXPECT_EQ(ReadRouting(fixed).routing.gating, Gating::kSoftmax);
  EXPECT_THAT(ReadRouting(fixed).routing.normalize, Optional(true));
  GgufMetadata minimax = MinimalRouting("minimax-m2");
  minimax.Set("minimax-m2.expert_weights_norm", GgufValue::Bool(false));
  minimax.Set("minimax-m2.expert_weights_scale", GgufValue::F32(2));
  EXPECT_THAT(ReadRouting(minimax).routing.normalize, Optional(true));
  EXPECT_EQ(ReadRouting(minimax).routing.scale, std::nullopt);
}

TEST(GgufRouting, RecognizesGlm47FlashByItsShape) {
  GgufMetadata metadata = MinimalRouting("deepseek2");
  metadata.Set("deepseek2.block_count", GgufValue::U32(47));
  metadata.Set("deepseek2.vocab_size", GgufValue::U32(154880));
  EXPECT_EQ(ReadRouting(metadata).routing.gating, Gating::kSigmoid);
  metadata.Set("deepseek2.expert_gating_func", GgufValue::U32(1));
  EXPECT_EQ(ReadRouting(metadata).routing.gating, Gating::kSoftmax);
}

TEST(GgufRouting, WarnsWhereItIsGuessed) {
  const ReadRouting minimax(MinimalRouting("minimax-m2"));
  EXPECT_EQ(minimax.routing.gating, Gating::kSigmoid);
  EXPECT_THAT(minimax.warnings, ElementsAre(HasSubstr("expected 2 (sigmoid), found none")));
  const ReadRouting unknown(MinimalRouting("newmoe"));
  EXPECT_EQ(unknown.routing.gating, std::nullopt);
  EXPECT_EQ(unknown.routing.normalize, std::nullopt);
  EXPECT_THAT(unknown.warnings, ElementsAre(HasSubstr("softmax is assumed")));
  EXPECT_EQ(RoutingOfGguf("f.gguf", MinimalRouting("newmoe"))->gating, Gating::kSoftmax);
  GgufMetadata said = MinimalRouting("newmoe");
  said.Set("newmoe.expert_gating_func", GgufValue::U32(4));
  EXPECT_EQ(ReadRouting(said).routing.gating, Gating::kSqrtSoftplus);
  EXPECT_THAT(ReadRouting(said).warnings, IsEmpty());
}

TEST(GgufRouting, RefusesAnUnknownFunctionForEveryArchitecture) {
  for (const std::string name : {"deepseek2", "qwen3moe", "minimax-m2", "llama4", "rnd1", "new"}) {
    GgufMetadata metadata = MinimalRouting(name);
    metadata.Set(name + ".expert_gating_func", GgufValue::U32(5));
    const ReadRouting read(metadata);
    EXPECT_EQ(read.error.code, Code::kUnsupported) << name;
    EXPECT_EQ(read.error.message,
              Cat("f.gguf: key \"", name, ".expert_gating_func\": expected softmax (1), ",
                  "sigmoid (2), softmax-after-topk (3), sqrtsoftplus (4), found 5"));
  }
}

TEST(GgufRouting, RefusesKeysOfAnotherType) {
  const std::pair<const char*, GgufValue> wrong[] = {
      {"deepseek2.expert_gating_func", GgufValue::String("sigmoid")},
      {"deepseek2.expert_weights_norm", GgufValue::U32(1)},
      {"deepseek2.expert_weights_scale", GgufValue::U32(1)},
      {"deepseek2.expert_weights_scale", GgufValue::F32(-1)},
      {"deepseek2.expert_group_count", GgufValue::F32(1)}};
  for (const auto& [key, value] : wrong) {
    GgufMetadata metadata = MinimalRouting("deepseek2");
    metadata.Set(key, value);
    EXPECT_EQ(ReadRouting(metadata).error.code, Code::kCorrupt);
    EXPECT_THAT(ReadRouting(metadata).error.message,
                HasSubstr(Cat("f.gguf: key \"", key, "\": expected")));
  }
}

TEST(GgufRouting, AnUnknownKeyAboutExpertsIsRefused) {
  GgufMetadata metadata = MinimalRouting("deepseek2");
  EXPECT_TRUE(CheckExpertKeys("f.gguf", metadata));
  metadata.Set("deepseek2.expert_gating_function", GgufValue::U32(2));
  const Status status = CheckExpertKeys("f.gguf", metadata);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kUnsupported);
  EXPECT_THAT(status.error().message,
              HasSubstr("f.gguf: key \"deepseek2.expert_gating_function\": expected one of"));
}

}  // namespace
}  // namespace moepack
