// A table with aligned columns, built for a hundred thousand rows: one buffer for all cells.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace cli {

class Table {
 public:
  // A heading that starts with '>' (which is not printed) aligns its column to the right.
  explicit Table(std::initializer_list<std::string_view> headings);
  explicit Table(const std::vector<std::string>& headings);

  // One cell per heading, in order. Text need not be ours: it is shown on one line (shard::Shown).
  void Cell(std::string_view text);
  void Cell(uint64_t number);
  void Row(std::initializer_list<std::string_view> cells);

  bool empty() const { return ends_.size() <= columns_; }
  // Columns two spaces apart, no space at the end of a line; every line is indented.
  std::string Render(size_t indent = 0) const;

 private:
  void Heading(std::string_view text);
  std::string_view At(size_t cell) const;
  std::vector<size_t> Widths() const;

  size_t columns_ = 0;
  std::vector<bool> right_;
  std::string text_;          // all cells one after the other, headings first
  std::vector<size_t> ends_;  // where each cell ends in text_
};

}  // namespace cli
