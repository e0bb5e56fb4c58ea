#include "tools/page/html.h"

#include <gmock/gmock.h>

#include "tests/tools/page/page_sample.h"

namespace moepack::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(PageHtml, TextIsNeverMarkup) {
  EXPECT_EQ(Escaped("<script>alert('x')</script>"),
            "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;");
  EXPECT_EQ(Escaped("\" onload=\"x&amp;"), "&quot; onload=&quot;x&amp;amp;");
  EXPECT_EQ(Escaped(std::string_view("a\0\x1b\xff", 4)), "a\\x00\\x1b\\xff");
}

TEST(PageHtml, FormatsNumbersWithFixedDigits) {
  EXPECT_EQ(Fixed(0.03125, 4), "0.0312");
  EXPECT_EQ(Fixed(-0.00001, 2), "0.00");
  EXPECT_EQ(Fixed(-1.5, 1), "-1.5");
  EXPECT_EQ(FixedWithError(1.5, 0.25, 2), "1.50 ± 0.25");
  EXPECT_EQ(Percent(0.12345), "12.3 %");
  EXPECT_EQ(Brief(0.01234), "0.0123");
  EXPECT_EQ(Brief(0.1234), "0.123");
  EXPECT_EQ(Brief(1.234), "1.23");
  EXPECT_EQ(Brief(12.34), "12.3");
  EXPECT_EQ(Brief(123.4), "123");
  EXPECT_EQ(Brief(0), "0");
}

TEST(PageHtml, TablesHaveRowAndColumnHeadings) {
  HtmlTable table("t", "What is in it", {"name", ">count"});
  table.Row({"<b>", "3"});
  EXPECT_THAT(table.Render(), HasSubstr("<caption>What is in it</caption>"));
  EXPECT_THAT(table.Render(), HasSubstr("<th scope=\"row\">&lt;b&gt;</th><td class=\"n\">3</td>"));
  EXPECT_THAT(TableOf(table.Render(), "t"),
              ElementsAre(ElementsAre("name", "count"), ElementsAre("&lt;b&gt;", "3")));
}

TEST(PageHtml, AFigureContainsTheTableOfItsNumbers) {
  HtmlTable table("t", "c", {"a"});
  table.Row({"1"});
  const std::string figure = Figure("<svg></svg>", "What it shows.", table);
  EXPECT_THAT(figure, HasSubstr("<figcaption>What it shows.</figcaption>"));
  EXPECT_THAT(figure, HasSubstr("<details><summary>The numbers (1 row)</summary>"));
}

}  // namespace
}  // namespace moepack::cli
