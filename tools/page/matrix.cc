#include <algorithm>
#include <cmath>

#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"
#include "tools/page/section.h"
#include "tools/page/svg.h"

namespace moepack::cli {
namespace {

constexpr double kCellHeight = 26, kLeastCell = 44, kMostCell = 90, kRoomForCells = 620;
constexpr double kLetter = 6.6;  // width of a letter of labels
constexpr size_t kMostLetters = 20;
constexpr double kTopRoom = 40;

std::string Shortened(const std::string& name) {
  const std::string_view kept = WholeCharacters(name, kMostLetters);
  return kept.size() == name.size() ? name : Cat(kept, "…");
}

double RoomFor(const std::vector<std::string>& names) {
  size_t most = 0;
  for (const std::string& name : names) most = std::max(most, Shortened(name).size());
  return static_cast<double>(most) * kLetter + 12;
}

}  // namespace

std::string KindClass(size_t index) { return Cat("k", index % 8); }

int StepOf(double share) {
  const double bounded = std::clamp(share, 0.0, 1.0);
  return std::min(kColourSteps - 1, static_cast<int>(bounded * kColourSteps));
}

std::string StepClass(int step) { return Cat("c", step); }

std::string OnStepClass(int step) {
  constexpr int kMiddle = 7, kHigh = 9;
  if (step < kMiddle) return "on-low";
  return step < kHigh ? "on-middle" : "on-high";
}

std::string MatrixPicture(const PageMatrix& matrix) {
  const size_t columns = std::min(matrix.columns.size(), kMostRows);
  const size_t rows = std::min(matrix.rows.size(), kMostRows);
  const double left = RoomFor(matrix.rows);
  const double cell = std::clamp(kRoomForCells / static_cast<double>(std::max<size_t>(columns, 1)),
                                 kLeastCell, kMostCell);
  const double width = std::max(left + cell * static_cast<double>(columns) + 2,
                                left + static_cast<double>(matrix.across.size()) * kLetter);
  Svg svg(width, kTopRoom + kCellHeight * static_cast<double>(rows) + 2, matrix.label);
  svg.Text(left, 12, matrix.across, "quiet");
  svg.Text(0, 32, matrix.down, "quiet");
  for (size_t c = 0; c < columns; ++c)
    svg.Text(left + cell * (static_cast<double>(c) + 0.5), 32, Shortened(matrix.columns[c]), "m");
  for (size_t r = 0; r < rows; ++r) {
    const double y = kTopRoom + kCellHeight * static_cast<double>(r);
    svg.Text(left - 8, y + kCellHeight / 2 + 4, Shortened(matrix.rows[r]), "e");
    for (size_t c = 0; c < columns; ++c) {
      const double value = matrix.values[r * matrix.columns.size() + c];
      const int step = StepOf(matrix.most > 0 ? value / matrix.most : 0);
      const double x = left + cell * static_cast<double>(c);
      svg.Rect(x + 1, y + 1, cell - 2, kCellHeight - 2, StepClass(step));
      if (matrix.diagonal && r == c) svg.Rect(x + 1, y + 1, cell - 2, kCellHeight - 2, "outline");
      svg.Text(x + cell / 2, y + kCellHeight / 2 + 4, matrix.text(value), "m " + OnStepClass(step));
    }
  }
  return svg.Render();
}

}  // namespace moepack::cli
