#include "tools/page/svg.h"

#include <cmath>

#include "libshard/base/text/text.h"
#include "tools/page/html.h"

namespace moepack::cli {
namespace {

// From this width on a picture scrolls on a narrow page and does not shrink further.
constexpr double kWide = 600;

std::string ClassAttribute(std::string_view css_class) {
  return css_class.empty() ? "" : Cat(" class=\"", css_class, "\"");
}

std::string Closed(std::string_view tag, std::string_view tip) {
  if (tip.empty()) return "/>\n";
  return Cat("><title>", Escaped(tip), "</title></", tag, ">\n");
}

}  // namespace

std::string Coordinate(double value) {
  const auto tenths = static_cast<long long>(std::llround(value * 10));
  const long long size = tenths < 0 ? -tenths : tenths;
  std::string out = Cat(tenths < 0 ? "-" : "", size / 10);
  if (size % 10 != 0) out += Cat(".", size % 10);
  return out;
}

Svg::Svg(double width, double height, std::string_view label)
    : width_(width), height_(height), label_(label) {}

void Svg::Rect(double x, double y, double width, double height, std::string_view css_class,
               std::string_view tip) {
  body_ +=
      Cat("<rect x=\"", Coordinate(x), "\" y=\"", Coordinate(y), "\" width=\"", Coordinate(width),
          "\" height=\"", Coordinate(height), "\"", ClassAttribute(css_class), Closed("rect", tip));
}

void Svg::Circle(double x, double y, double radius, std::string_view css_class,
                 std::string_view tip) {
  body_ += Cat("<circle cx=\"", Coordinate(x), "\" cy=\"", Coordinate(y), "\" r=\"",
               Coordinate(radius), "\"", ClassAttribute(css_class), Closed("circle", tip));
}

void Svg::Line(double x1, double y1, double x2, double y2, std::string_view css_class) {
  body_ += Cat("<line x1=\"", Coordinate(x1), "\" y1=\"", Coordinate(y1), "\" x2=\"",
               Coordinate(x2), "\" y2=\"", Coordinate(y2), "\"", ClassAttribute(css_class), "/>\n");
}

void Svg::Polyline(const std::vector<Point>& points, std::string_view css_class) {
  std::string commands;
  for (const Point& point : points)
    commands += Cat(commands.empty() ? "M" : "L", Coordinate(point.x), " ", Coordinate(point.y));
  Path(commands, css_class);
}

void Svg::Path(std::string_view commands, std::string_view css_class) {
  body_ += Cat("<path d=\"", commands, "\"", ClassAttribute(css_class), "/>\n");
}

void Svg::Text(double x, double y, std::string_view text, std::string_view css_class) {
  body_ += Cat("<text x=\"", Coordinate(x), "\" y=\"", Coordinate(y), "\"",
               ClassAttribute(css_class), ">", Escaped(text), "</text>\n");
}

std::string Svg::Render() const {
  const std::string width = Coordinate(width_), height = Coordinate(height_);
  return Cat("<svg viewBox=\"0 0 ", width, " ", height, "\" width=\"", width, "\" height=\"",
             height, "\"", width_ >= kWide ? " class=\"wide\"" : "", " role=\"img\" aria-label=\"",
             Escaped(label_), "\">\n", body_, "</svg>\n");
}

std::vector<double> RoundTicks(double most, int count) {
  const double least = most / count;
  double power = 1;
  while (power > least) power /= 10;
  while (power * 10 <= least) power *= 10;
  double step = power * 10;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (power * factor < least) continue;
    step = power * factor;
    break;
  }
  std::vector<double> ticks = {0};
  while (ticks.back() < most * (1 - 1e-9))
    ticks.push_back(step * static_cast<double>(ticks.size()));
  return ticks;
}

}  // namespace moepack::cli
