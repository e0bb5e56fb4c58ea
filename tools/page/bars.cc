#include <algorithm>

#include "libshard/base/text/text.h"
#include "tools/page/html.h"
#include "tools/page/section.h"
#include "tools/page/svg.h"

namespace moepack::cli {
namespace {

constexpr double kBarsWidth = 760, kBarsLeft = 230, kBarsRight = 70, kBarsTop = 10, kBarsRow = 24,
                 kBarsThick = 12, kBarsAxis = 24;
constexpr int kBarsTicks = 5;

}  // namespace

std::string BarsPicture(const PageBars& picture) {
  double most = 1e-6;
  for (const PageBar& bar : picture.bars) most = std::max(most, bar.value + bar.error);
  const std::vector<double> ticks = RoundTicks(most, kBarsTicks);
  const auto at = [&](double value) {
    const double share = std::clamp(value / ticks.back(), 0.0, 1.0);
    return kBarsLeft + share * (kBarsWidth - kBarsLeft - kBarsRight);
  };
  const size_t drawn = std::min(picture.bars.size(), kMostRows);
  const double height = kBarsTop + kBarsRow * static_cast<double>(drawn);
  Svg svg(kBarsWidth, height + kBarsAxis, picture.label);
  for (const double tick : ticks) {
    svg.Line(at(tick), kBarsTop, at(tick), height, "grid");
    svg.Text(at(tick), height + 16, picture.text(tick), "m quiet");
  }
  svg.Text(kBarsLeft - 10, height + 16, picture.unit, "e quiet");
  for (size_t i = 0; i < drawn; ++i) {
    const PageBar& bar = picture.bars[i];
    const double middle = kBarsTop + kBarsRow * (static_cast<double>(i) + 0.5);
    svg.Text(kBarsLeft - 10, middle + 4, bar.name, "e");
    svg.Rect(kBarsLeft, middle - kBarsThick / 2, at(bar.value) - kBarsLeft, kBarsThick,
             bar.css_class, Cat(bar.name, ": ", bar.tip));
    if (bar.error > 0)
      svg.Line(at(bar.value - bar.error), middle, at(bar.value + bar.error), middle, "whisker");
    svg.Text(at(bar.value + bar.error) + 8, middle + 4, picture.text(bar.value), "strong");
  }
  return svg.Render();
}

}  // namespace moepack::cli
