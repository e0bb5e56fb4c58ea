#include "runtime-shim/calibrate/nearest_points.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "quant/point_grids.h"
#include "tests/quant/instruction_sets.h"
#include "tests/runtime-shim/refit/made_node.h"

namespace moepack::runtime {
namespace {

// Targets for the points of a type, with costs that are a square.
struct MadeTargets {
  explicit MadeTargets(const char* type) : grid(*quant::FindPointGrid(*quant::FindFormat(type))) {
    const size_t size = grid.size;
    wanted = RandomFloats(size * kPanelColumns, 1, 40);
    signs.assign(wanted.size(), 1);
    if (grid.signs != quant::PointSigns::kNone) {
      for (size_t i = 0; i < signs.size(); ++i) signs[i] = wanted[i] < 0 ? -1.0f : 1.0f;
    }
    scales = RandomFloats(kPanelColumns, 2, 0.4);
    for (float& scale : scales) scale = std::abs(scale) + 0.6f;
    const std::vector<float> root = RandomFloats(size * size, 3);
    for (size_t i = 0; i < size; ++i) {
      for (size_t j = 0; j < size; ++j) {
        float& cost = costs.emplace_back(i == j ? 1.0f : 0.0f);
        for (size_t k = 0; k < size; ++k) cost += root[i * size + k] * root[j * size + k];
      }
    }
  }
  PointTargets targets() const {
    return {wanted.data(), signs.data(), scales.data(), costs.data()};
  }
  double CostOf(size_t point, size_t c) const {
    const size_t size = grid.size;
    std::array<double, kMostOfPoint> error;
    for (size_t i = 0; i < size; ++i)
      error[i] = wanted[i * kPanelColumns + c] -
                 double{scales[c]} * signs[i * kPanelColumns + c] * grid.codes[point * size + i];
    double sum = 0;
    for (size_t i = 0; i < size; ++i) {
      for (size_t j = 0; j < size; ++j) sum += error[i] * error[j] * costs[i * size + j];
    }
    return sum;
  }
  const quant::PointGrid& grid;
  const PointBook book{grid};
  std::vector<float> wanted, signs, scales, costs;
};

class NearestPointsOf : public testing::TestWithParam<const char*> {};

TEST_P(NearestPointsOf, AreThoseOfTheReferenceOnEveryInstructionSet) {
  const MadeTargets made(GetParam());
  std::array<uint16_t, kPanelColumns> wanted, found;
  NearestPointsRef(made.book, made.targets(), wanted.data());
  for (const quant::InstructionSet& set : quant::InstructionSets()) {
    if (!set.present) continue;
    const quant::OnInstructionSet on(set.target);
    NearestPoints(made.book, made.targets(), found.data());
    EXPECT_EQ(found, wanted) << set.name;
  }
}

TEST_P(NearestPointsOf, HaveTheLeastErrorOfAll) {
  const MadeTargets made(GetParam());
  std::array<uint16_t, kPanelColumns> found;
  NearestPoints(made.book, made.targets(), found.data());
  for (size_t c = 0; c < kPanelColumns; ++c) {
    double least = std::numeric_limits<double>::infinity();
    for (size_t p = 0; p < made.grid.count(); ++p) least = std::min(least, made.CostOf(p, c));
    EXPECT_LE(made.CostOf(found[c], c), 1.0001 * least) << c;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, NearestPointsOf, testing::Values("iq3_xxs", "iq2_s", "iq1_s"));

}  // namespace
}  // namespace moepack::runtime
