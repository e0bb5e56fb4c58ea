#include "tools/base/table.h"

#include <algorithm>
#include <cassert>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/utf8.h"

namespace moepack::cli {
namespace {

constexpr size_t kGap = 2;

}  // namespace

TableColumns::TableColumns(const std::vector<std::string>& headings) {
  for (const std::string& heading : headings) {
    right_.push_back(heading.starts_with('>'));
    headings_.push_back(right_.back() ? heading.substr(1) : heading);
    widths_.push_back(0);
  }
  Measure(headings_);
}

void TableColumns::Measure(std::span<const std::string> cells) {
  assert(cells.size() == widths_.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    widths_[i] = std::max(widths_[i], CountCharacters(Shown(cells[i])));
  }
}

std::string TableColumns::Line(std::span<const std::string> cells, size_t indent) const {
  assert(cells.size() == widths_.size());
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string cell = Shown(cells[i]);
    const size_t padding = widths_[i] - CountCharacters(cell);
    line.append(i == 0 ? indent : kGap, ' ');
    if (right_[i]) line.append(padding, ' ');
    line += cell;
    if (!right_[i]) line.append(padding, ' ');
  }
  while (line.ends_with(' ')) line.pop_back();
  return line + "\n";
}

Table::Table(std::initializer_list<std::string_view> headings)
    : columns_(std::vector<std::string>(headings.begin(), headings.end())) {}

Table::Table(const std::vector<std::string>& headings) : columns_(headings) {}

void Table::Cell(std::string_view text) { cells_.emplace_back(text); }

void Table::Cell(uint64_t number) { Cell(std::to_string(number)); }

void Table::Row(std::initializer_list<std::string_view> cells) {
  assert(cells.size() == columns_.size());
  for (const std::string_view cell : cells) Cell(cell);
}

std::string Table::Render(size_t indent) const {
  assert(cells_.size() % columns_.size() == 0);
  const size_t width = columns_.size();
  TableColumns columns = columns_;
  for (size_t i = 0; i < cells_.size(); i += width) {
    columns.Measure(std::span(cells_).subspan(i, width));
  }
  std::string out = columns.HeadingLine(indent);
  for (size_t i = 0; i < cells_.size(); i += width) {
    out += columns.Line(std::span(cells_).subspan(i, width), indent);
  }
  return out;
}

}  // namespace moepack::cli
