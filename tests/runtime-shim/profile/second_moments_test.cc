#include "runtime-shim/profile/second_moments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "libshard/base/text/text.h"
#include "runtime-shim/devices/executors.h"
#include "runtime-shim/session/session.h"
#include "tests/runtime-shim/support/tiny_weights.h"

namespace moepack::runtime {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using Entries = std::map<std::string, ImatrixEntry, std::less<>>;

constexpr uint32_t kIds[] = {3, 17, 5, 5, 39, 0, 21, 8, 30, 2, 11};
constexpr float kTokens = std::size(kIds);

// Runs the tokens on an observed executor, `batch` at a time.
Result<Entries> MomentsOf(std::shared_ptr<const Weights> weights, uint32_t batch = 128) {
  SecondMoments moments;
  SHARD_TRY(std::shared_ptr<Executor> cpu, OpenExecutor("cpu", {}));
  ObservedExecutor executor(std::move(cpu), moments);
  SHARD_TRY(const std::unique_ptr<Model> model, Model::Load(weights, executor));
  moments.SetWeights(*weights);
  SessionOptions options;
  options.batch = batch;
  SHARD_TRY(const std::unique_ptr<Session> session,
            Session::Open(*model, EligibleExperts(*weights, std::nullopt, true), options));
  SHARD_CHECK(session->Feed(kIds, LogitsOf::kLast));
  return moments.Entries();
}

Entries SoundMomentsOf(std::shared_ptr<const Weights> weights, uint32_t batch = 128) {
  auto entries = MomentsOf(std::move(weights), batch);
  EXPECT_TRUE(entries) << entries.error().message;
  return entries ? *std::move(entries) : Entries();
}

float SumOf(const std::vector<float>& values) {
  float sum = 0;
  for (const float value : values) sum += value;
  return sum;
}

class MomentsOfEvery : public testing::TestWithParam<const char*> {};

// Every matrix of a layer has an entry of the length that llama-quantize expects: a row for each
// matrix.
TEST_P(MomentsOfEvery, MatrixOfALayerHasItsOwnRows) {
  const auto weights = TinyWeights(GetParam());
  const Entries entries = SoundMomentsOf(weights);
  size_t expected = 0;
  const auto check = [&](const HostTensor& tensor, bool experts) {
    if (tensor.shape.size() < 2 || !tensor.name.starts_with("blk.") ||
        !tensor.name.ends_with(".weight"))
      return;
    ++expected;
    ASSERT_THAT(entries, Contains(Key(tensor.name)));
    const ImatrixEntry& entry = entries.at(tensor.name);
    const uint64_t matrices = tensor.shape.size() < 3 ? 1 : tensor.shape[0];
    EXPECT_EQ(entry.sums.size(), matrices * tensor.shape.back()) << tensor.name;
    ASSERT_EQ(entry.counts.size(), experts ? matrices : 1) << tensor.name;
    EXPECT_EQ(SumOf(entry.counts), experts ? 2 * kTokens : kTokens) << tensor.name;
  };
  for (const HostTensor& tensor : weights->trunk) check(tensor, false);
  for (const HostTensor& tensor : weights->sets[0].tensors) check(tensor, true);
  EXPECT_EQ(entries.size(), expected);
}

TEST_P(MomentsOfEvery, BatchSizeGivesTheSameBits) {
  const auto weights = TinyWeights(GetParam());
  const Entries whole = SoundMomentsOf(weights), three = SoundMomentsOf(weights, 3);
  for (const auto& [name, entry] : whole) {
    EXPECT_EQ(three.at(name).sums, entry.sums) << name;
    EXPECT_EQ(three.at(name).counts, entry.counts) << name;
  }
}

TEST_P(MomentsOfEvery, PlaceOfAnExpertDoesNotMatter) {
  const auto weights = TinyWeights(GetParam());
  const Entries whole = SoundMomentsOf(weights);
  const Entries apart = SoundMomentsOf(WithExpertsApart(*weights));
  ASSERT_EQ(apart.size(), whole.size());
  for (const auto& [name, entry] : whole) {
    EXPECT_EQ(apart.at(name).sums, entry.sums) << name;
    EXPECT_EQ(apart.at(name).counts, entry.counts) << name;
  }
}

std::string MomentsName(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(SecondMoments, MomentsOfEvery,
                         testing::Values("llama", "qwen2moe", "qwen3moe", "deepseek2", "gpt-oss",
                                         "llama4", "phimoe"),
                         MomentsName);

// The rows of attn_output_a are those of groups of heads, each of which has results of its own.
// Queries of the indexer count whether it has to pick or not.
TEST(SecondMoments, PartsWithInputsOfTheirOwnAllCount) {
  const auto weights = TinyWeights("deepseek4");
  const Entries entries = SoundMomentsOf(weights);
  const ImatrixEntry& grouped = entries.at("blk.1.attn_output_a.weight");
  EXPECT_EQ(grouped.sums.size(), 16u);
  EXPECT_EQ(SumOf(grouped.counts), 2 * kTokens);
  EXPECT_EQ(SumOf(entries.at("blk.1.attn_output_b.weight").counts), kTokens);
  EXPECT_EQ(SumOf(entries.at("blk.0.indexer.attn_q_b.weight").counts), kTokens);
  EXPECT_EQ(SumOf(entries.at("blk.0.attn_compressor_kv.weight").counts), kTokens);
}

// llama.cpp multiplies with them value by value.
TEST(SecondMoments, HaveNoScoresOfResidualAttention) {
  const Entries entries = SoundMomentsOf(TinyWeights("kimi-k3"));
  for (const char* name : {"blk.0.ssm_f_a.weight", "blk.0.ssm_f_b.weight", "blk.1.attn_gate.weight",
                           "blk.1.ffn_routed_up.weight"})
    EXPECT_THAT(entries, Contains(Key(name)));
  for (const char* name : {"blk.0.attn_res_score.weight", "blk.1.ffn_res_score.weight"})
    EXPECT_THAT(entries, Not(Contains(Key(name))));
}

// The first layer's attention gets norm(embedding), which can be calculated here.
TEST(SecondMoments, AreSumsOfSquaresOfTheInputs) {
  const auto weights = TinyWeights("qwen3moe");
  constexpr size_t kWidth = 32;
  std::vector<double> expected(kWidth);
  for (const uint32_t id : kIds) {
    double squares = 0;
    for (size_t i = 0; i < kWidth; ++i)
      squares += std::pow(ValueOf(*weights, "token_embd.weight", id * kWidth + i), 2);
    for (size_t i = 0; i < kWidth; ++i) {
      const double value = ValueOf(*weights, "token_embd.weight", id * kWidth + i) *
                           ValueOf(*weights, "blk.0.attn_norm.weight", i) /
                           std::sqrt(squares / kWidth + 1e-5);
      expected[i] += value * value;
    }
  }
  const Entries entries = SoundMomentsOf(weights);
  for (const char* name : {"blk.0.attn_q.weight", "blk.0.attn_v.weight"}) {
    for (size_t i = 0; i < kWidth; ++i)
      EXPECT_NEAR(entries.at(name).sums[i], expected[i], 1e-5 * expected[i]) << name << " " << i;
  }
}

// The inputs of all experts of a layer are those of its router, top-k times.
TEST(SecondMoments, OfExpertsAddUpToTheRouters) {
  const Entries entries = SoundMomentsOf(TinyWeights("qwen3moe"));
  const ImatrixEntry& router = entries.at("blk.1.ffn_gate_inp.weight");
  for (const char* name : {"blk.1.ffn_gate_exps.weight", "blk.1.ffn_up_exps.weight"}) {
    const ImatrixEntry& experts = entries.at(name);
    for (size_t column = 0; column < 32; ++column) {
      float sum = 0;
      for (size_t expert = 0; expert < 8; ++expert) sum += experts.sums[expert * 32 + column];
      EXPECT_NEAR(sum, 2 * router.sums[column], 1e-4 * sum);
    }
  }
  EXPECT_EQ(entries.at("blk.1.ffn_down_exps.weight").counts,
            entries.at("blk.1.ffn_up_exps.weight").counts);
}

// As in a distribution: the experts of a layer are in two sets, some of them in both.
TEST(SecondMoments, OfExpertsAreStoredByIdWhereverTheyAre) {
  const auto whole = TinyWeights("qwen3moe");
  const auto first = WithExperts(*whole, {0, 2, 5, 7});
  const auto parts = WithExperts(*whole, {1, 2, 3, 4, 6});
  parts->sets.insert(parts->sets.begin(), first->sets[0]);
  const Entries expected = SoundMomentsOf(whole);
  for (const auto& [name, entry] : SoundMomentsOf(parts)) {
    EXPECT_EQ(entry.sums, expected.at(name).sums) << name;
    EXPECT_EQ(entry.counts, expected.at(name).counts) << name;
  }
}

TEST(SecondMoments, LeaveOutEmbeddingOutputAndIgnoredTokens) {
  const Entries entries = SoundMomentsOf(TinyWeights("qwen3moe"));
  EXPECT_THAT(entries, Not(Contains(Key("output.weight"))));
  EXPECT_THAT(entries, Not(Contains(Key("token_embd.weight"))));
  SecondMoments moments;
  moments.Count(false);
  EXPECT_FALSE(moments.Wants({}));
  const auto none = moments.Entries();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "importance matrix: expected products, found none");
}

TEST(SecondMoments, NameTheLayerOfASumBeyondFloat) {
  const auto weights = TinyWeights("qwen3moe");
  // The inputs of the second layer's attention: they are finite, but their squares are not.
  for (size_t i = 0; i < 32; ++i) ValueOf(*weights, "blk.1.attn_norm.weight", i) = 1e20f;
  const auto entries = MomentsOf(weights);
  ASSERT_FALSE(entries);
  EXPECT_EQ(entries.error().code, Code::kCorrupt);
  EXPECT_THAT(
      entries.error().message,
      HasSubstr("layer 1: inputs of \"blk.1.attn_k.weight\": expected a sum of squares that "
                "F32 holds, found "));
}

TEST(SecondMoments, NameTheLayerOfActivationsThatAreNotNumbers) {
  const auto weights = TinyWeights("qwen3moe");
  ValueOf(*weights, "blk.1.ffn_gate_inp.weight", 7) = std::numeric_limits<float>::quiet_NaN();
  const auto entries = MomentsOf(weights);
  ASSERT_FALSE(entries);
  EXPECT_EQ(entries.error().code, Code::kCorrupt);
  EXPECT_THAT(entries.error().message, HasSubstr("layer 1: router"));
}

}  // namespace
}  // namespace moepack::runtime
