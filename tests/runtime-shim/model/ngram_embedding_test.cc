#include "runtime-shim/model/ngram_embedding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace moepack::runtime {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

constexpr uint32_t kEndToken = 50;
constexpr uint64_t kLargeFactor = 4295158889766209;  // 53 bits

// Bigrams and trigrams pick two rows each.
NgramShape Trigrams() {
  return {.size = 3,
          .heads = 2,
          .width = 1,
          .kernel = 2,
          .end = kEndToken,
          .channels = 4,
          .multipliers = {kLargeFactor, 7, 1000003},
          .offsets = {0, 41, 84, 131},
          .rows = {41, 43, 47, 53}};
}

uint32_t NgramRowOf(const NgramShape& shape, uint64_t hash, size_t pick) {
  return static_cast<uint32_t>(shape.offsets[pick] + hash % shape.rows[pick]);
}

std::vector<uint32_t> NgramRowsOf(const NgramShape& shape, uint64_t last, uint64_t second,
                                  uint64_t third) {
  const uint64_t pair = (last * shape.multipliers[0]) ^ (second * shape.multipliers[1]);
  const uint64_t triple = pair ^ (third * shape.multipliers[2]);
  return {NgramRowOf(shape, pair, 0), NgramRowOf(shape, pair, 1), NgramRowOf(shape, triple, 2),
          NgramRowOf(shape, triple, 3)};
}

TEST(NgramRows, HashTheLastTokens) {
  const NgramShape shape = Trigrams();
  const uint32_t tokens[] = {11, 12, 13, 14};
  EXPECT_EQ(NgramRows(shape, tokens), NgramRowsOf(shape, 14, 13, 12));
  EXPECT_NE(NgramRowsOf(shape, 14, 13, 12), NgramRowsOf(shape, 14, 13, 11));
}

TEST(NgramRows, ReadTheEndBeforeTheFirstToken) {
  const NgramShape shape = Trigrams();
  const uint32_t tokens[] = {14, 15};
  EXPECT_EQ(NgramRows(shape, std::span(tokens).first(1)),
            NgramRowsOf(shape, 14, kEndToken, kEndToken));
  EXPECT_EQ(NgramRows(shape, tokens), NgramRowsOf(shape, 15, 14, kEndToken));
}

TEST(NgramRows, SeeNothingBeforeAnEnd) {
  const NgramShape shape = Trigrams();
  const uint32_t tokens[] = {12, kEndToken, 14};
  EXPECT_EQ(NgramRows(shape, tokens), NgramRowsOf(shape, 14, kEndToken, kEndToken));
  EXPECT_EQ(NgramRows(shape, std::span(tokens).first(2)),
            NgramRowsOf(shape, kEndToken, 12, kEndToken))
      << "the last token does not end its own n-grams";
}

float SigmoidFrom(float x) { return 1 / (1 + std::exp(-x)); }
float SiluFrom(float x) { return x * SigmoidFrom(x); }

// Two streams of two numbers.
struct SmallEmbedding {
  NgramShape shape = Trigrams();
  NgramConstants constants{{1, 1, 1, 1}, {0, 0, 0, 0, 0, 0, 0, 0}, /*eps=*/0};
  RecurrentState state;

  SmallEmbedding() { state.Clear(shape.state()); }
  std::vector<float> Step(const std::vector<float>& keys, const std::vector<float>& queries,
                          const std::vector<float>& value) {
    std::vector<float> out(4);
    StepNgrams(shape, constants, {keys, queries, value}, state, out);
    return out;
  }
};

TEST(StepNgrams, GatesTheValueForEachStreamByTheRootOfAProduct) {
  SmallEmbedding small;
  const std::vector<float> out = small.Step({1, 1, 3, 0}, {2, 2, -3, 5}, {1, 2});
  const float first = SigmoidFrom(std::sqrt(4 / std::sqrt(2.0f)));
  const float second = SigmoidFrom(-std::sqrt(9 / std::sqrt(2.0f)));
  EXPECT_THAT(
      out, Pointwise(FloatNear(1e-6f), std::vector<float>{first, 2 * first, second, 2 * second}));
}

TEST(StepNgrams, GatesByAHalfWithoutAProductAndNeverByLessThanARootOfAMillionth) {
  SmallEmbedding small;
  const std::vector<float> out = small.Step({0, 0, 1e-12f, 0}, {1, 1, -1, 0}, {1, 0});
  EXPECT_THAT(out,
              Pointwise(FloatNear(1e-7f), std::vector<float>{0.5f, 0, SigmoidFrom(-1e-3f), 0}));
}

// The convolution sees every third token: the first tap is that of the token three before.
TEST(StepNgrams, ConvolvesNormsOfEveryTokenThatIsAnNgramAway) {
  SmallEmbedding small;
  small.constants.kernel = {1, 0, 1, 0, 0, 0.5f, 0, 0};
  small.constants.norm = {1, 2, 3, 1};
  const std::vector<float> none(4), first = small.Step(none, none, {1, 7});
  // Values of 0.5 and 3.5, whose mean square is 6.25.
  const float norm = 1 / 2.5f;
  const float now = SiluFrom(0.5f * 3 * 0.5f * norm);
  EXPECT_THAT(first, Pointwise(FloatNear(1e-6f), std::vector<float>{0.5f, 3.5f, 0.5f + now, 3.5f}));
  for (int token = 0; token < 2; ++token)
    EXPECT_FLOAT_EQ(small.Step(none, none, {0.5f, 0.5f})[0], 0.25f);
  const std::vector<float> fourth = small.Step(none, none, {2, 2});
  EXPECT_NEAR(fourth[0], 1 + SiluFrom(0.5f * norm), 1e-6f);
  EXPECT_NEAR(fourth[1], 1 + SiluFrom(3.5f * norm * 2), 1e-6f);
  EXPECT_EQ(fourth[3], 1);
  EXPECT_EQ(small.state.length, 4u);
}

}  // namespace
}  // namespace moepack::runtime
