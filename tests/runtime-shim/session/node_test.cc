#include "runtime-shim/session/node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tests/runtime-shim/tiny_node.h"

namespace moepack::runtime {
namespace {

using testing::HasSubstr;

class NodeOfTiny : public TinyDistribution {
 protected:
  static std::vector<uint32_t> Prompt(const Node& node) {
    const auto tokenizer = node.tokenizer();
    EXPECT_TRUE(tokenizer) << tokenizer.error().message;
    return *(*tokenizer)->Encode("def main():\n    return 0\n", Tokenizer::Options());
  }
  static std::vector<double> Scores(const Node& node, uint32_t moe_layers) {
    const auto scores = node.ProbeScore(Prompt(node), moe_layers);
    EXPECT_TRUE(scores) << scores.error().message;
    return scores ? *scores : std::vector<double>();
  }
};

TEST_F(NodeOfTiny, HoldsOnlyItsGroupAndTheOverlay) {
  const auto node = Open(1);
  ASSERT_TRUE(node->weights().plan);
  for (const uint32_t layer : {0u, 1u, 2u})
    EXPECT_EQ(moepack::IdsOf(node->eligible(), layer), Eligible(*node->weights().plan, 1, layer));
  EXPECT_NE(node->weights().FindGroup(1), nullptr);
  EXPECT_EQ(node->weights().FindGroup(0), nullptr);
  EXPECT_NE(node->weights().FindOverlay(), nullptr);
}

TEST_F(NodeOfTiny, ScoresEveryGroupBetweenNoneAndAll) {
  const std::vector<double> scores = Scores(*Open(0), 0);
  ASSERT_EQ(scores.size(), 3u);
  for (const double score : scores) {
    EXPECT_GT(score, 0);
    EXPECT_LT(score, 1);
  }
  EXPECT_NE(scores[0], scores[1]);
}

// The mask has no effect before the second layer with experts.
TEST_F(NodeOfTiny, EveryNodeGivesTheSameFirstLayerScores) {
  const std::vector<double> scores = Scores(*Open(0), 1);
  EXPECT_EQ(Scores(*Open(1), 1), scores);
  EXPECT_EQ(Scores(*Open(2), 1), scores);
  EXPECT_NE(Scores(*Open(0), 0), scores);
}

TEST_F(NodeOfTiny, ScoringDoesNotAffectOtherSessions) {
  const auto node = Open(0);
  const std::vector<uint32_t> prompt = Prompt(*node);
  const auto generate = [&] {
    auto generation = node->OpenGeneration({}, {});
    EXPECT_TRUE((*generation)->Prefill(prompt));
    std::vector<uint32_t> ids;
    for (int i = 0; i < 5; ++i) ids.push_back((*generation)->Decode()->id);
    return ids;
  };
  const std::vector<uint32_t> before = generate();
  Scores(*node, 2);
  EXPECT_EQ(generate(), before);
}

TEST_F(NodeOfTiny, GeneratesTokensWithLogProbabilities) {
  const auto node = Open(2);
  auto generation = node->OpenGeneration({}, {});
  ASSERT_TRUE(generation);
  ASSERT_TRUE((*generation)->Prefill(Prompt(*node)));
  for (int i = 0; i < 8; ++i) {
    const auto next = (*generation)->Decode();
    ASSERT_TRUE(next);
    EXPECT_LT(next->id, 1024u);
    EXPECT_LE(next->logprob, 0);
    EXPECT_GT(next->logprob, -20);
  }
}

TEST_F(NodeOfTiny, AWholeModelRunsWithoutAMaskAndHasNoGroupsToScore) {
  const auto node = OpenSource(tiny::kSource.string(), std::nullopt);
  EXPECT_EQ(moepack::IdsOf(node->eligible(), 0).size(), 16u);
  const auto scores = node->ProbeScore(Prompt(*node), 0);
  ASSERT_FALSE(scores);
  EXPECT_THAT(scores.error().message, HasSubstr("expected a distribution"));
}

TEST_F(NodeOfTiny, RunsTokenIdsWithoutATokenizer) {
  const fixtures::TempDir dir;
  std::filesystem::copy(tiny::kSource, dir / "ids");
  std::filesystem::remove(dir / "ids/tokenizer.json");
  const auto node = OpenSource((dir / "ids").string(), std::nullopt);
  ASSERT_NE(node, nullptr);
  const auto tokenizer = node->tokenizer();
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().code, Code::kNotFound);
  EXPECT_THAT(tokenizer.error().message, HasSubstr("ids/tokenizer.json: expected the tokenizer"));
  const auto whole = OpenSource(tiny::kSource.string(), std::nullopt);
  const auto next = [](const Node& opened) {
    auto generation = opened.OpenGeneration({}, {});
    EXPECT_TRUE((*generation)->Prefill(std::vector<uint32_t>{1, 2, 3}));
    return (*generation)->Decode()->id;
  };
  EXPECT_EQ(next(*node), next(*whole));
}

TEST_F(NodeOfTiny, AllGroupsTogetherFormTheWholeModel) {
  const auto together = Open(std::nullopt);
  EXPECT_EQ(Scores(*together, 1), Scores(*Open(0), 1));
  EXPECT_NE(Scores(*together, 0), Scores(*Open(0), 0));
  for (const uint32_t layer : {0u, 1u, 2u})
    EXPECT_EQ(FormatIds(moepack::IdsOf(together->eligible(), layer)), "0-15");
  const auto whole = OpenSource(tiny::kSource.string(), std::nullopt);
  const auto generate = [&](const Node& node) {
    auto generation = node.OpenGeneration({}, {});
    EXPECT_TRUE((*generation)->Prefill(Prompt(node)));
    std::vector<std::pair<uint32_t, double>> tokens;
    for (int i = 0; i < 5; ++i) {
      const auto next = (*generation)->Decode();
      tokens.emplace_back(next->id, next->logprob);
    }
    return tokens;
  };
  EXPECT_EQ(generate(*together), generate(*whole));
  EXPECT_NE(generate(*Open(1)), generate(*whole));
}

TEST_F(NodeOfTiny, RefusesMissingGroups) {
  EXPECT_EQ(Refusal(3).code, Code::kInvalidArgument);
  NodeOptions options;
  options.group = 0;
  const auto model = Node::Open(tiny::kSource.string(), options);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::kInvalidArgument);
}

TEST_F(NodeOfTiny, RefusesMissingExecutors) {
  NodeOptions options;
  options.group = 0;
  options.executor = "abacus";
  EXPECT_THAT(Refusal(options).message, HasSubstr("expected one of cpu"));
  EXPECT_EQ(Refusal(options).code, Code::kInvalidArgument);
  options.executor = "cpu";
  options.device.device = 63;
  EXPECT_EQ(Refusal(options).code, Code::kUnavailable);
  for (const ExecutorKind& kind : AllExecutorKinds()) {
    if (kind.missing == nullptr) continue;
    options.executor = kind.name;
    EXPECT_EQ(Refusal(options).code, Code::kUnsupported);
    EXPECT_THAT(Refusal(options).message, HasSubstr(kind.missing));
  }
}

TEST_F(NodeOfTiny, RefusesPromptsThatDoNotFit) {
  const auto node = Open(0);
  SessionOptions options;
  options.context = 4;
  auto generation = node->OpenGeneration(options, {});
  ASSERT_TRUE(generation);
  const auto filled = (*generation)->Prefill(std::vector<uint32_t>(5, 1));
  ASSERT_FALSE(filled);
  EXPECT_EQ(filled.error().code, Code::kInvalidArgument);
  EXPECT_THAT(filled.error().message, HasSubstr("context of 4, found 5"));
  EXPECT_FALSE((*generation)->Prefill({}));
  EXPECT_FALSE((*generation)->Prefill(std::vector<uint32_t>{1024}));
  EXPECT_FALSE(node->ProbeScore(std::vector<uint32_t>{1}, 0));
  EXPECT_FALSE(node->ProbeScore({}, 0));
}

TEST_F(NodeOfTiny, RefusesInvalidSampling) {
  Sampling sampling;
  sampling.top_p = 2;
  const auto generation = Open(0)->OpenGeneration({}, sampling);
  ASSERT_FALSE(generation);
  EXPECT_THAT(generation.error().message, HasSubstr("top-p"));
}

}  // namespace
}  // namespace moepack::runtime
