#include "quant/ternary/iq1.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace quant {
namespace {

Grid8::Levels LevelsOfRun(const std::array<uint8_t, 32>& levels, size_t run) {
  Grid8::Levels out;
  std::copy_n(levels.begin() + static_cast<ptrdiff_t>(run * kIq1Run), kIq1Run, out.begin());
  return out;
}

// The scale with the smallest error for the points; that of the search if none is above 0.
float FitToPoints(const WeightedGroup& group, const Iq1Group& stored, float scale) {
  float qx = 0, qq = 0;
  for (size_t i = 0; i < group.values.size(); ++i) {
    const uint16_t point = Iq1Grid().points()[stored.numbers[i / kIq1Run]];
    const float q = Iq1ValuesOf(stored.shifts, i / kIq1Run)[Grid8::LevelOf(point, i % kIq1Run)];
    qx += group.weights[i] * q * group.values[i];
    qq += group.weights[i] * q * q;
  }
  return qx > 0 && qq > 0 ? qx / qq : scale;
}

}  // namespace

void Iq1Split::Try(float qx, float qq, size_t tried_low, size_t tried_high,
                   Iq1Shifts tried_shifts) {
  const float best = found ? gain : std::numeric_limits<float>::lowest();
  if (!(qq > 0 && qx * qx > best * qq)) return;
  scale = qx / qq;
  gain = scale * qx;
  low = tried_low;
  high = tried_high;
  shifts = tried_shifts;
  found = true;
}

Iq1Order Iq1OrderOf(Values values) {
  Iq1Order order{};
  const auto end = order.begin() + static_cast<ptrdiff_t>(values.size());
  std::iota(order.begin(), end, uint8_t{0});
  std::stable_sort(order.begin(), end, [&](uint8_t a, uint8_t b) {
    return values[a] < values[b] || (std::isnan(values[b]) && !std::isnan(values[a]));
  });
  return order;
}

Iq1Group MakeIq1Group(const WeightedGroup& group, const Iq1Order& order, const Iq1Split& split) {
  const size_t count = group.values.size(), runs = count / kIq1Run;
  // A negative scale is stored as its opposite, with all signs flipped.
  const bool turned = split.scale < 0;
  const Iq1Shifts all = (1u << runs) - 1;
  float scale = turned ? -split.scale : split.scale;
  Iq1Group stored{.scale = scale, .shifts = turned ? ~split.shifts & all : split.shifts};
  std::array<uint8_t, 32> levels{};
  for (size_t j = 0; j < count; ++j) {
    const uint8_t level = j < split.low ? 0 : j < split.high ? 1 : 2;
    levels[order[j]] = turned ? 2 - level : level;
  }
  bool all_are_points = true;
  for (size_t run = 0; run < runs; ++run) {
    const size_t cell = Grid8::CellOf(LevelsOfRun(levels, run));
    int number = Iq1Grid().PointIn(cell);
    if (number < 0) {
      all_are_points = false;
      const uint16_t point = NearestIq1Neighbour(cell, group.values.subspan(run * kIq1Run, kIq1Run),
                                                 group.weights.subspan(run * kIq1Run, kIq1Run),
                                                 scale, Iq1ValuesOf(stored.shifts, run));
      number = Iq1Grid().PointIn(Grid8::CellOf(Grid8::LevelsOf(point)));
    }
    stored.numbers[run] = static_cast<uint16_t>(number);
  }
  if (!all_are_points) stored.scale = FitToPoints(group, stored, scale);
  return stored;
}

uint16_t NearestIq1Neighbour(size_t cell, Values values, Values weights, float scale,
                             const Iq1Values& stands_for) {
  const std::span<const uint16_t> neighbours = Iq1Grid().NeighboursOf(cell);
  uint16_t nearest = neighbours.front();
  float least = std::numeric_limits<float>::max();
  for (const uint16_t point : neighbours) {
    float error = 0;
    for (size_t i = 0; i < kIq1Run; ++i) {
      const float difference = scale * stands_for[Grid8::LevelOf(point, i)] - values[i];
      error += weights[i] * difference * difference;
    }
    if (error < least) {
      least = error;
      nearest = point;
    }
  }
  return nearest;
}

float LargestIq1Scale(Values scales) {
  float largest = 0;
  for (const float scale : scales) largest = largest > scale ? largest : scale;
  return largest;
}

int Iq1ScaleLevel(float scale, float inverse) {
  return NearestLevel(0.5f * (inverse * scale - 1), 0, 7);
}

std::span<const Iq1Bytes> Iq1PointBytes() {
  static const std::vector<Iq1Bytes> bytes = [] {
    std::vector<Iq1Bytes> all;
    for (const uint16_t point : Iq1Grid().points()) {
      Iq1Bytes& one = all.emplace_back();
      for (size_t i = 0; i < kIq1Run; ++i) {
        one[i] = static_cast<int8_t>(Grid8::LevelOf(point, i) - 1);
      }
    }
    return all;
  }();
  return bytes;
}

void DecodeIq1Run(size_t number, bool down, float scale, float* out) {
  const uint16_t point = Iq1Grid().points()[number];
  for (size_t i = 0; i < kIq1Run; ++i) {
    out[i] = scale * kIq1Values[down ? 1 : 0][Grid8::LevelOf(point, i)];
  }
}

}  // namespace quant
