// Tables with aligned columns.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moepack::cli {

// How wide the columns of a table are. A table that is too long to hold in memory is generated
// twice: first every row is measured, then every row is written.
class TableColumns {
 public:
  // A heading that starts with '>' (which is not printed) aligns its column to the right.
  explicit TableColumns(const std::vector<std::string>& headings);

  size_t size() const { return widths_.size(); }
  // One cell per heading, in order. The text may come from anywhere: it is shown on one line
  // (Shown).
  void Measure(std::span<const std::string_view> cells);
  // Columns two spaces apart, no space at the end of the line.
  std::string HeadingLine(size_t indent = 0) const { return Line(Headings(), indent); }
  std::string Line(std::span<const std::string_view> cells, size_t indent = 0) const;

 private:
  std::vector<std::string_view> Headings() const { return {headings_.begin(), headings_.end()}; }

  std::vector<std::string> headings_;
  std::vector<bool> right_;
  std::vector<size_t> widths_;
};

class Table {
 public:
  // Headings are as in TableColumns.
  explicit Table(std::initializer_list<std::string_view> headings);
  explicit Table(const std::vector<std::string>& headings);

  // One cell per heading, in order.
  void Cell(std::string_view text);
  void Cell(uint64_t number);
  void Row(std::initializer_list<std::string_view> cells);

  bool empty() const { return cells_.empty(); }
  // The headings and all rows.
  std::string Render(size_t indent = 0) const;

 private:
  TableColumns columns_;
  std::vector<std::string> cells_;  // row by row
};

}  // namespace moepack::cli
