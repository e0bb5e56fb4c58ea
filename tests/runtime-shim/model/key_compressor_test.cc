#include "runtime-shim/model/key_compressor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>

namespace moepack::runtime {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

using Numbers = std::vector<float>;

// A compressor with its state.
struct Compressing {
  CompressorShape shape;
  CompressorConstants constants;
  CompressorState state;

  explicit Compressing(const CompressorShape& own) : shape(own) {
    constants.places.assign(size_t{shape.ratio} * shape.columns(), 0);
    constants.norm.assign(shape.width, 1);
    state.Clear(shape);
  }
  // The key, if the token completes a block.
  std::optional<Numbers> Add(const Numbers& values, const Numbers& scores) {
    Numbers key(shape.width);
    if (!CompressToken(shape, constants, {values, scores}, state, key)) return std::nullopt;
    return key;
  }
};

// The key's mean square is 1, so numbers are compared by their ratio.
TEST(KeyCompressor, ABlockBecomesTheMeanOfItsTokensByTheirScores) {
  Compressing compressing({.ratio = 2, .width = 2});
  EXPECT_FALSE(compressing.Add({1, 1}, {0, 0}));
  const auto key = compressing.Add({3, 5}, {0, std::log(3.0f)});
  ASSERT_TRUE(key);
  EXPECT_NEAR((*key)[0] / (*key)[1], 2.0 / 4, 1e-5);
  EXPECT_NEAR((*key)[0] * (*key)[0] + (*key)[1] * (*key)[1], 2, 1e-4);
  EXPECT_FALSE(compressing.Add({7, 7}, {0, 0})) << "the next block";
}

TEST(KeyCompressor, ThePlaceInTheBlockAddsToTheScore) {
  Compressing compressing({.ratio = 2, .width = 2});
  compressing.constants.places = {0, 0, 50, -50};
  compressing.Add({1, 1}, {0, 0});
  const auto key = compressing.Add({3, 5}, {0, 0});
  ASSERT_TRUE(key);
  EXPECT_NEAR((*key)[0] / (*key)[1], 3, 1e-4);
}

TEST(KeyCompressor, TheNormIsWeighted) {
  Compressing compressing({.ratio = 1, .width = 2});
  compressing.constants.norm = {2, -1};
  EXPECT_THAT(*compressing.Add({3, 3}, {0, 0}),
              ElementsAre(FloatNear(2, 1e-5f), FloatNear(-1, 1e-5f)));
}

// The first halves of the columns are for the next block, the second halves for the own one.
TEST(KeyCompressor, BlocksThatOverlapTakeTheTokensBefore) {
  Compressing compressing({.ratio = 1, .width = 2, .overlaps = true});
  EXPECT_THAT(*compressing.Add({8, 1, 1, 1}, {0, 0, 0, 0}),
              ElementsAre(FloatNear(1, 1e-5f), FloatNear(1, 1e-5f)))
      << "nothing is before the first block";
  const auto key = compressing.Add({99, 99, 2, 3}, {0, 0, 0, 0});
  ASSERT_TRUE(key);
  EXPECT_NEAR((*key)[0] / (*key)[1], (8.0 + 2) / (1 + 3), 1e-5);
}

// Softmax and mean in double over the tokens of both blocks, without a state.
Numbers Expected(const Compressing& compressing, const std::vector<Numbers>& values,
                 const std::vector<Numbers>& scores, size_t block) {
  const CompressorShape& shape = compressing.shape;
  std::vector<double> key;
  double squares = 0;
  for (size_t i = 0; i < shape.width; ++i) {
    double sum = 0, mixed = 0;
    const size_t own = block * shape.ratio;
    const size_t first = shape.overlaps && block > 0 ? own - shape.ratio : own;
    for (size_t token = first; token < own + shape.ratio; ++token) {
      const size_t column = i + (shape.overlaps && token >= own ? shape.width : 0);
      const size_t place = token % shape.ratio * shape.columns() + column;
      const double weight =
          std::exp(double{scores[token][column]} + double{compressing.constants.places[place]});
      sum += weight;
      mixed += weight * double{values[token][column]};
    }
    key.push_back(mixed / sum);
    squares += key.back() * key.back();
  }
  Numbers normed;
  for (size_t i = 0; i < key.size(); ++i)
    normed.push_back(static_cast<float>(key[i] / std::sqrt(squares / shape.width) *
                                        double{compressing.constants.norm[i]}));
  return normed;
}

TEST(KeyCompressor, GivesWhatTheFormulaGivesForEveryBlock) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const auto fill = [&](Numbers& numbers) {
    for (float& number : numbers) number = normal(random);
  };
  for (const CompressorShape& shape :
       {CompressorShape{4, 6, true}, CompressorShape{5, 3, false}, CompressorShape{1, 2, true}}) {
    Compressing compressing(shape);
    fill(compressing.constants.places);
    fill(compressing.constants.norm);
    std::vector<Numbers> values, scores;
    for (size_t token = 0; token < 23; ++token) {
      fill(values.emplace_back(shape.columns()));
      fill(scores.emplace_back(shape.columns()));
      const auto key = compressing.Add(values.back(), scores.back());
      ASSERT_EQ(key.has_value(), (token + 1) % shape.ratio == 0);
      if (!key) continue;
      const size_t block = token / shape.ratio;
      EXPECT_THAT(*key, Pointwise(FloatNear(1e-5f), Expected(compressing, values, scores, block)))
          << "block " << block << " of " << shape.ratio;
    }
    EXPECT_EQ(compressing.state.length, 23u);
  }
}

}  // namespace
}  // namespace moepack::runtime
