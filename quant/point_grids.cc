#include "quant/point_grids.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "quant/grids/grid_values.h"
#include "quant/grids/iq2_s.h"
#include "quant/grids/iq2_xs.h"
#include "quant/grids/iq2_xxs.h"
#include "quant/grids/iq3_s.h"
#include "quant/grids/iq3_xxs.h"
#include "quant/grids/points.h"
#include "quant/ternary/iq1_m.h"
#include "quant/ternary/iq1_s.h"

namespace quant {
namespace {

using PointsIn = std::span<const uint16_t>;
using SignsIn = std::span<const uint8_t>;
using BytesOut = std::span<std::byte>;

// ---- iq2 and iq3: a block with points and signs alone shows where their bits are.

template <auto kPack>
auto PackPoints(PointsIn points, SignsIn signs) {
  GridBlock fields;
  fields.empty = false;
  std::copy(points.begin(), points.end(), fields.numbers.begin());
  std::copy(signs.begin(), signs.end(), fields.signs.begin());
  std::array<std::byte, sizeof(kPack(fields))> bytes;
  const auto block = kPack(fields);
  std::memcpy(bytes.data(), &block, bytes.size());
  return bytes;
}

// `kCount`: points, a power of two.
template <auto kPack, size_t kCount>
void PutGridPoints(PointsIn points, SignsIn signs, BytesOut bytes) {
  static const auto bits = [&] {
    const std::vector<uint16_t> last(points.size(), kCount - 1);
    const std::vector<uint8_t> minus(signs.size(), 0xff);
    return PackPoints<kPack>(last, minus);
  }();
  const auto packed = PackPoints<kPack>(points, signs);
  for (size_t i = 0; i < bits.size(); ++i) bytes[i] = (bytes[i] & ~bits[i]) | packed[i];
}

template <class Grid, size_t kCount>
std::vector<float> CodesOf(const std::array<uint16_t, kCount>& points,
                           const std::array<int8_t, Grid::kLevels>& values) {
  std::vector<float> codes;
  for (const uint16_t point : points) {
    for (size_t i = 0; i < Grid::kSize; ++i)
      codes.push_back(static_cast<float>(values[Grid::LevelOf(point, i)]));
  }
  return codes;
}

// ---- iq1: the shift of a point belongs to its base.

template <class Block, class Pack>
void PutIq1(PointsIn points, BytesOut bytes, const Pack& pack) {
  Block block;
  std::memcpy(&block, bytes.data(), sizeof(Block));
  for (size_t run = 0; run < points.size(); ++run) {
    block.qs[run] = static_cast<uint8_t>(points[run]);
    pack(run, points[run] >> 8, block);
  }
  std::memcpy(bytes.data(), &block, sizeof(Block));
}

void PutIq1S(PointsIn points, SignsIn, BytesOut bytes) {
  PutIq1<BlockIq1S>(points, bytes, [](size_t run, unsigned upper, BlockIq1S& block) {
    const size_t shift = run % 4 * 3;
    uint16_t& word = block.qh[run / 4];
    word = static_cast<uint16_t>((word & ~(7u << shift)) | upper << shift);
  });
}

void PutIq1M(PointsIn points, SignsIn, BytesOut bytes) {
  PutIq1<BlockIq1M>(points, bytes, [](size_t run, unsigned upper, BlockIq1M& block) {
    const size_t shift = run % 2 * 4;
    uint8_t& byte = block.qh[run / 2];
    byte = static_cast<uint8_t>((byte & ~(7u << shift)) | upper << shift);
  });
}

std::vector<float> Iq1Codes() {
  std::vector<float> codes;
  for (const Iq1Bytes& point : Iq1PointBytes())
    codes.insert(codes.end(), point.begin(), point.end());
  return codes;
}

struct GridOfPoints {
  std::string_view type;
  PointGrid grid;
};

std::span<const GridOfPoints> AllPointGrids() {
  static const std::vector<float> iq2_xxs = CodesOf<Grid8>(kIq2XxsPoints, kIq2Values),
                                  iq2_xs = CodesOf<Grid8>(kIq2XsPoints, kIq2Values),
                                  iq2_s = CodesOf<Grid8>(kIq2SPoints, kIq2Values),
                                  iq3_xxs = CodesOf<Grid4>(kIq3XxsPoints, kIq3XxsValues),
                                  iq3_s = CodesOf<Grid4>(kIq3SPoints, kIq3SValues),
                                  iq1 = Iq1Codes();
  static const GridOfPoints all[] = {
      {"iq3_s", {4, iq3_s, PointSigns::kEach, PutGridPoints<PackIq3S, 512>}},
      {"iq3_xxs", {4, iq3_xxs, PointSigns::kEven, PutGridPoints<PackIq3Xxs, 256>}},
      {"iq2_s", {8, iq2_s, PointSigns::kEach, PutGridPoints<PackIq2S, 1024>}},
      {"iq2_xs", {8, iq2_xs, PointSigns::kEven, PutGridPoints<PackIq2Xs, 512>}},
      {"iq2_xxs", {8, iq2_xxs, PointSigns::kEven, PutGridPoints<PackIq2Xxs, 256>}},
      {"iq1_m", {8, iq1, PointSigns::kNone, PutIq1M}},
      {"iq1_s", {8, iq1, PointSigns::kNone, PutIq1S}},
  };
  return all;
}

}  // namespace

const PointGrid* FindPointGrid(const Format& format) {
  for (const GridOfPoints& row : AllPointGrids()) {
    if (row.type == format.name) return &row.grid;
  }
  return nullptr;
}

}  // namespace quant
