// A picture as inline SVG. Colours, fonts and line widths come from the classes of the page's style
// (style.h), so that they follow the reader's light or dark mode.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moepack::cli {

// Lengths are pixels from the upper left corner, written with one digit after the point.
class Svg {
 public:
  // `label` describes the picture for readers who cannot see it; it is escaped here, and so are all
  // texts below.
  Svg(double width, double height, std::string_view label);

  // `tip` is the tooltip; "" for none.
  void Rect(double x, double y, double width, double height, std::string_view css_class,
            std::string_view tip = "");
  void Circle(double x, double y, double radius, std::string_view css_class,
              std::string_view tip = "");
  void Line(double x1, double y1, double x2, double y2, std::string_view css_class);
  // Connects the points.
  struct Point {
    double x = 0, y = 0;
  };
  void Polyline(const std::vector<Point>& points, std::string_view css_class);
  // `commands` is what a `d` attribute holds; see PathText.
  void Path(std::string_view commands, std::string_view css_class);
  // At the baseline; with the classes "e" and "m" the text ends or is centred there.
  void Text(double x, double y, std::string_view text, std::string_view css_class = "");

  std::string Render() const;

 private:
  double width_, height_;
  std::string label_, body_;
};

// A coordinate in SVG's form: "12", "12.5".
std::string Coordinate(double value);

// Round numbers from 0 that divide an axis up to `most` into about `count` parts; the last is at
// least `most`. REQUIRES: most > 0.
std::vector<double> RoundTicks(double most, int count);

}  // namespace moepack::cli
