#include "quant/grids/grid_block.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "quant/half.h"
#include "quant/rounding.h"
#include "quant/search/k_search.h"

namespace quant {
namespace {

constexpr int kTopScale = 15;

// One group while it is being fitted. Magnitudes are the values without their signs; in types with
// even signs, one of eight may be negative.
struct MagnitudeGroup {
  size_t size = 0;
  std::array<float, kMaxGridGroup> magnitudes, weights, roots;  // roots of the weights
  std::array<uint8_t, 4> signs{};

  Values all_magnitudes() const { return Values(magnitudes).first(size); }
  Values all_weights() const { return Values(weights).first(size); }
};

void Weigh(const GridRules& rules, Values values, Values importance, float spread,
           MagnitudeGroup& group) {
  for (size_t i = 0; i < group.size; ++i) {
    const float square = values[i] * values[i];
    float& weight = group.weights[i];
    if (!importance.empty()) {
      weight = importance[i] * std::sqrt(spread + square);
    } else if (rules.plain == PlainWeight::kOnes) {
      weight = std::sqrt(spread + square);
    } else {
      weight = rules.plain == PlainWeight::kSquare ? square : 0.25f * spread + square;
    }
    group.roots[i] = std::sqrt(weight);
  }
}

// Makes the number of negative values even: flips the sign where that costs least.
void TurnOneSign(Values values, MagnitudeGroup& group, size_t first) {
  size_t cheapest = first;
  float least = group.weights[first] * values[first] * values[first];
  for (size_t i = first + 1; i < first + kSignedValues; ++i) {
    const float cost = group.weights[i] * values[i] * values[i];
    if (cost < least) {
      least = cost;
      cheapest = i;
    }
  }
  group.magnitudes[cheapest] = -group.magnitudes[cheapest];
  group.signs[first / kSignedValues] ^= static_cast<uint8_t>(1u << (cheapest - first));
}

void SplitSigns(const GridRules& rules, Values values, MagnitudeGroup& group) {
  for (size_t first = 0; first < group.size; first += kSignedValues) {
    unsigned signs = 0;
    for (size_t i = 0; i < kSignedValues; ++i) {
      const float value = values[first + i];
      const bool negative = !(value >= 0);
      group.magnitudes[first + i] = negative ? -value : value;
      signs |= static_cast<unsigned>(negative) << i;
    }
    group.signs[first / kSignedValues] = static_cast<uint8_t>(signs);
    if (rules.even_signs && __builtin_popcount(signs) % 2 != 0) TurnOneSign(values, group, first);
  }
}

// The largest magnitude, as ggml's MAX finds it: a failed comparison takes the later value.
float LargestOf(Values magnitudes) {
  float largest = magnitudes.front();
  for (const float x : magnitudes.subspan(1)) largest = largest > x ? largest : x;
  return largest;
}

template <class Grid>
class GroupFitter {
 public:
  GroupFitter(const GridRules& rules, const Grid& grid, const MagnitudeGroup& group)
      : rules_(rules), grid_(grid), group_(group), points_(group.size / Grid::kSize) {}

  // Returns the scale and sets the points. A group without a scale gets neither.
  std::optional<float> Fit(std::array<uint16_t, 8>& points) const {
    const float top = static_cast<float>(2 * Grid::kLevels - 1);
    float reach = LargestOf(group_.all_magnitudes());
    if (reach < rules_.zero_limit) return std::nullopt;
    Choice best;
    best.off_grid = rules_.refit == Refit::kOffGrid ? 0 : ~0u;
    best.scale = reach / top;
    if (rules_.positive_start) {
      std::array<uint8_t, kMaxGridGroup> levels;
      best.scale = FitPositive({group_.all_magnitudes(), group_.all_weights()},
                               static_cast<int>(Grid::kLevels) + 1, std::span(levels));
      reach = best.scale * static_cast<float>(Grid::kLevels);
      if (reach <= 0) return std::nullopt;
    }
    float best_gain = 0;
    for (int i = -rules_.last; i <= rules_.last; ++i) {
      const float inverse = (top + static_cast<float>(i) * rules_.step) / reach;
      Choice tried = ChooseAt(inverse, 1 / inverse);
      const LevelFit fit = SumsOf(tried);
      if (!(fit.ll > 0 && fit.xl * fit.xl > best_gain * fit.ll)) continue;
      tried.scale = fit.xl / fit.ll;
      best_gain = tried.scale * fit.xl;
      best = tried;
    }
    FitAgain(best);
    points = best.points;
    return best.scale;
  }

 private:
  struct Choice {
    float scale = 0;
    unsigned off_grid = 0;  // bit k: the levels of point k were not on the grid
    std::array<uint16_t, 8> points{};
  };

  // Returns the points for the levels nearest to the magnitudes times `inverse`.
  Choice ChooseAt(float inverse, float scale) const {
    Choice choice;
    for (size_t k = 0; k < points_; ++k) choice.off_grid |= ChoosePoint(k, inverse, scale, choice);
    return choice;
  }

  // Returns bit k if the levels are not on the grid.
  unsigned ChoosePoint(size_t k, float inverse, float scale, Choice& choice) const {
    typename Grid::Levels levels;
    for (size_t i = 0; i < Grid::kSize; ++i) {
      const float x = group_.magnitudes[k * Grid::kSize + i];
      levels[i] = static_cast<uint8_t>(
          NearestLevel(0.5f * (inverse * x - 1), 0, static_cast<int>(Grid::kLevels) - 1));
    }
    const size_t cell = Grid::CellOf(levels);
    const int number = grid_.PointIn(cell);
    choice.points[k] = number >= 0 ? grid_.points()[static_cast<size_t>(number)]
                                   : NearestNeighbour(k, grid_.NeighboursOf(cell), scale);
    return number >= 0 ? 0 : 1u << k;
  }

  // The neighbour with the smallest error, weighted by the roots of the weights as in ggml.
  uint16_t NearestNeighbour(size_t k, std::span<const uint16_t> neighbours, float scale) const {
    uint16_t nearest = neighbours.front();
    float least = std::numeric_limits<float>::max();
    for (const uint16_t point : neighbours) {
      float error = 0;
      for (size_t i = 0; i < Grid::kSize; ++i) {
        const size_t at = k * Grid::kSize + i;
        const float difference = scale * Value(point, i) - group_.magnitudes[at];
        error += group_.roots[at] * difference * difference;
      }
      if (error < least) {
        least = error;
        nearest = point;
      }
    }
    return nearest;
  }

  LevelFit SumsOf(const Choice& choice) const {
    LevelFit fit;
    for (size_t i = 0; i < group_.size; ++i) {
      const float value = Value(choice.points[i / Grid::kSize], i % Grid::kSize);
      fit.xl += group_.weights[i] * group_.magnitudes[i] * value;
      fit.ll += group_.weights[i] * value * value;
    }
    return fit;
  }

  // Chooses points again for the scale that was found, then fits the scale to them.
  void FitAgain(Choice& best) const {
    const bool wanted = rules_.refit == Refit::kAlways || best.off_grid != 0;
    if (!wanted || !(best.scale > 0)) return;
    const float inverse = 1 / best.scale;
    for (size_t k = 0; k < points_; ++k) {
      if (rules_.refit == Refit::kOffGrid && (best.off_grid >> k & 1) == 0) continue;
      ChoosePoint(k, inverse, best.scale, best);
    }
    const LevelFit fit = SumsOf(best);
    if (fit.ll > 0) best.scale = fit.xl / fit.ll;
  }

  // The value that a level stands for, in units of half a step.
  static float Value(uint16_t point, size_t i) {
    return static_cast<float>(2 * Grid::LevelOf(point, i) + 1);
  }

  const GridRules& rules_;
  const Grid& grid_;
  const MagnitudeGroup& group_;
  const size_t points_;  // of a group
};

// Fits group j and sets its points and signs. Returns its scale.
template <class Grid>
float FitGroup(const GridRules& rules, const Grid& grid, const MagnitudeGroup& group, size_t j,
               GridBlock& block) {
  std::array<uint16_t, 8> points{};
  const std::optional<float> scale = GroupFitter<Grid>(rules, grid, group).Fit(points);
  if (!scale) {
    block.zero_groups |= 1u << j;
    return 0;
  }
  const size_t count = group.size / Grid::kSize;
  for (size_t k = 0; k < count; ++k) {
    const int number = grid.PointIn(Grid::CellOf(Grid::LevelsOf(points[k])));
    block.numbers[j * count + k] = static_cast<uint16_t>(number);
  }
  // A scale is stored without a sign, so the values take its sign.
  const bool turned = *scale < 0;
  for (size_t k = 0; k < group.size / kSignedValues; ++k) {
    const uint8_t signs = group.signs[k];
    block.signs[j * group.size / kSignedValues + k] = turned ? static_cast<uint8_t>(~signs) : signs;
  }
  return turned ? -*scale : *scale;
}

}  // namespace

void RoundGridScales(const GridRules& rules, std::span<const float> scales, GridBlock& block) {
  float largest = 0;
  for (const float scale : scales) largest = largest > scale ? largest : scale;
  block.empty = largest == 0;
  if (block.empty) return;
  const float d = largest / static_cast<float>(2 * kTopScale + 1);
  const float inverse = 1 / d;
  block.d = ScaleToHalf(d * rules.factor);
  for (size_t j = 0; j < scales.size(); ++j) {
    block.scales[j] =
        static_cast<uint8_t>(NearestLevel(0.5f * (inverse * scales[j] - 1), 0, kTopScale));
  }
}

template <class Grid>
GridBlock FitGridBlock(const GridRules& rules, const Grid& grid, Values values, Values importance) {
  const float spread = rules.spread * SumOfSquares(values) / static_cast<float>(kSuperBlock);
  GridBlock block;
  std::array<float, 16> scales{};
  const size_t groups = kSuperBlock / rules.group_values;
  for (size_t j = 0; j < groups; ++j) {
    MagnitudeGroup group;
    group.size = rules.group_values;
    const auto part = [&](Values all) { return all.subspan(j * group.size, group.size); };
    Weigh(rules, part(values), importance.empty() ? importance : part(importance), spread, group);
    SplitSigns(rules, part(values), group);
    scales[j] = FitGroup(rules, grid, group, j, block);
  }
  RoundGridScales(rules, Values(scales).first(groups), block);
  return block;
}

template GridBlock FitGridBlock(const GridRules&, const Grid8&, Values, Values);
template GridBlock FitGridBlock(const GridRules&, const Grid4&, Values, Values);

}  // namespace quant
