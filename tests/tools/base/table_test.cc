#include "tools/base/table.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace moepack::cli {
namespace {

TEST(Table, AlignsColumnsLeftAndRight) {
  Table table({"name", ">bytes", "part"});
  table.Row({"a", "5", "trunk"});
  table.Row({"long.name", "12345", "x"});
  EXPECT_EQ(table.Render(),
            "name       bytes  part\n"
            "a              5  trunk\n"
            "long.name  12345  x\n");
}

TEST(Table, LeavesNoSpaceAtTheEndOfALine) {
  Table table({"a", "b"});
  table.Row({"x", ""});
  EXPECT_EQ(table.Render(2), "  a  b\n  x\n");
}

TEST(Table, CountsCharactersAndNotBytes) {
  Table table({"name", "n"});
  table.Row({"\xC3\xA9\xC3\xA9", "1"});
  EXPECT_EQ(table.Render(), "name  n\n\xC3\xA9\xC3\xA9    1\n");
}

TEST(Table, IsEmptyUntilTheFirstRow) {
  Table table({"a"});
  EXPECT_TRUE(table.empty());
  table.Cell(uint64_t{7});
  EXPECT_FALSE(table.empty());
  EXPECT_EQ(table.Render(), "a\n7\n");
}

TEST(TableColumns, MakeTheLinesOfTheTableOneByOne) {
  const std::vector<std::vector<std::string_view>> rows = {
      {"a", "5"}, {"long.\x1bname", "12345"}, {"::error::x", "##[x"}};
  Table table({"name", ">bytes"});
  TableColumns columns({"name", ">bytes"});
  for (const auto& row : rows) {
    for (const std::string_view cell : row) table.Cell(cell);
    columns.Measure(row);
  }
  std::string text = columns.HeadingLine(1);
  for (const auto& row : rows) text += columns.Line(row, 1);
  EXPECT_EQ(text, table.Render(1));
}

TEST(Table, RendersAHundredThousandRowsAtOnce) {
  Table table({"name", ">bytes"});
  for (int i = 0; i < 100'000; ++i)
    table.Row({"model.layers.0.mlp.experts.0.up_proj.weight", "12"});
  const std::string text = table.Render();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 100'001);
}

}  // namespace
}  // namespace moepack::cli
