#include "tools/page/svg.h"

#include <gmock/gmock.h>

namespace moepack::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(PageSvg, CoordinatesHaveAtMostOneDecimal) {
  EXPECT_EQ(Coordinate(12), "12");
  EXPECT_EQ(Coordinate(12.34), "12.3");
  EXPECT_EQ(Coordinate(-0.06), "-0.1");
  EXPECT_EQ(Coordinate(0.04), "0");
}

TEST(PageSvg, TextsAndTipsAreEscaped) {
  Svg svg(100, 50, "a \"label\"");
  svg.Rect(1, 2, 3, 4, "k0", "</title><script>");
  svg.Text(0, 0, "<text>", "m");
  const std::string text = svg.Render();
  EXPECT_THAT(text, HasSubstr("role=\"img\" aria-label=\"a &quot;label&quot;\""));
  EXPECT_THAT(text, HasSubstr("<rect x=\"1\" y=\"2\" width=\"3\" height=\"4\" class=\"k0\"><title>"
                              "&lt;/title&gt;&lt;script&gt;</title></rect>"));
  EXPECT_THAT(text, HasSubstr(">&lt;text&gt;</text>"));
  EXPECT_THAT(text, Not(HasSubstr("<script>")));
}

TEST(PageSvg, TicksAreRoundNumbersAndReachTheEnd) {
  EXPECT_THAT(RoundTicks(1, 5), ElementsAre(0, 0.2, 0.4, testing::DoubleNear(0.6, 1e-12), 0.8, 1));
  EXPECT_THAT(RoundTicks(4130000, 5), ElementsAre(0, 1e6, 2e6, 3e6, 4e6, 5e6));
  EXPECT_EQ(RoundTicks(7, 4).back(), 8);
  EXPECT_GE(RoundTicks(0.034, 4).back(), 0.034);
}

}  // namespace
}  // namespace moepack::cli
