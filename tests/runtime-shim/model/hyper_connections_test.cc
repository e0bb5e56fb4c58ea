#include "runtime-shim/model/hyper_connections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace moepack::runtime {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;
using testing::SizeIs;

constexpr StreamShape kThree = {.count = 3, .iterations = 20, .eps = 1e-6f};

float SigmoidHere(float x) { return 1 / (1 + std::exp(-x)); }

TEST(HyperConnections, RowsAndColumnsSumUpToOne) {
  std::vector<float> matrix = {3, -1, 0, 2, 5, -4, 0.5f, 0, 1};
  Balance(kThree, matrix);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(matrix[i] + matrix[3 + i] + matrix[6 + i], 1, 1e-4) << "column " << i;
    EXPECT_NEAR(matrix[3 * i] + matrix[3 * i + 1] + matrix[3 * i + 2], 1, 1e-2) << "row " << i;
  }
  EXPECT_GT(matrix[4], matrix[5]);
}

// One turn divides the columns of the softmax of each row by their sums, and nothing else.
TEST(HyperConnections, OneTurnDividesTheColumnsAlone) {
  StreamShape shape = {.count = 2, .iterations = 1, .eps = 0};
  std::vector<float> matrix = {0, std::log(3.0f), 0, 0};  // rows of 1/4, 3/4 and 1/2, 1/2
  const std::vector<float> before = matrix;
  Balance(shape, matrix);
  const std::vector<float> once = {1.0f / 3, 0.6f, 2.0f / 3, 0.4f};
  EXPECT_THAT(matrix, Pointwise(FloatNear(1e-6f), once));
  shape.iterations = 2;  // rows, then columns again
  matrix = before;
  Balance(shape, matrix);
  const float a = once[0] / (once[0] + once[1]), c = once[2] / (once[2] + once[3]);
  EXPECT_THAT(matrix,
              Pointwise(FloatNear(1e-6f), std::vector<float>{a / (a + c), (1 - a) / (2 - a - c),
                                                             c / (a + c), (1 - c) / (2 - a - c)}));
}

TEST(HyperConnections, TheFirstNumbersAreOfReadingTheNextOfWriting) {
  const StreamShape shape = {.count = 2, .iterations = 1, .eps = 0.25f};
  const StreamConstants constants = {{2, 3, 0}, {0, 1, -1, 0, 0, 0, 0, 0}};
  const float projected[] = {1, 0.5f, 1, -1, 9, 8, 7, 6};
  const StreamMix mix = MixStreams(shape, constants, projected);
  EXPECT_THAT(mix.read, ElementsAre(FloatNear(SigmoidHere(2) + 0.25f, 1e-6f),
                                    FloatNear(SigmoidHere(2) + 0.25f, 1e-6f)));
  EXPECT_THAT(mix.write, ElementsAre(FloatNear(2 * SigmoidHere(2), 1e-6f),
                                     FloatNear(2 * SigmoidHere(-3), 1e-6f)));
  ASSERT_THAT(mix.keep, SizeIs(4));
  EXPECT_THAT(mix.keep, Each(FloatNear(0.75f / 1.75f, 1e-6f))) << "the scale of keeping is zero";
}

TEST(HyperConnections, TheHeadReadsAsBlocksDo) {
  const StreamConstants constants = {{2}, {0, 1, 0}};
  const float projected[] = {1, 0, -1};
  EXPECT_THAT(ReadStreams(kThree, constants, projected),
              Pointwise(FloatNear(1e-5f),
                        std::vector<float>{SigmoidHere(2), SigmoidHere(1), SigmoidHere(-2)}));
}

}  // namespace
}  // namespace moepack::runtime
