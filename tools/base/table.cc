#include "tools/base/table.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/utf8.h"

namespace moepack::cli {
namespace {

constexpr size_t kGap = 2;

// Calls `use` with the cell as it is printed and its width. Nothing is allocated for a plain cell.
template <class Use>
void WithShown(std::string_view cell, const Use& use) {
  if (IsPlainText(cell)) return use(cell, cell.size());
  const std::string shown = Shown(cell);
  use(std::string_view(shown), CountCharacters(shown));
}

}  // namespace

TableColumns::TableColumns(const std::vector<std::string>& headings) {
  for (const std::string& heading : headings) {
    right_.push_back(heading.starts_with('>'));
    headings_.push_back(right_.back() ? heading.substr(1) : heading);
    widths_.push_back(0);
  }
  Measure(Headings());
}

void TableColumns::Measure(std::span<const std::string_view> cells) {
  assert(cells.size() == widths_.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    WithShown(cells[i],
              [&](std::string_view, size_t width) { widths_[i] = std::max(widths_[i], width); });
  }
}

std::string TableColumns::Line(std::span<const std::string_view> cells, size_t indent) const {
  assert(cells.size() == widths_.size());
  std::string line;
  line.reserve(std::accumulate(widths_.begin(), widths_.end(), indent + kGap * cells.size()));
  for (size_t i = 0; i < cells.size(); ++i) {
    WithShown(cells[i], [&](std::string_view cell, size_t width) {
      const size_t padding = widths_[i] - width;
      line.append(i == 0 ? indent : kGap, ' ');
      if (right_[i]) line.append(padding, ' ');
      line += cell;
      if (!right_[i]) line.append(padding, ' ');
    });
  }
  while (line.ends_with(' ')) line.pop_back();
  line += '\n';
  return line;
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
  const std::vector<std::string_view> cells(cells_.begin(), cells_.end());
  const auto row = [&](size_t first) { return std::span(cells).subspan(first, width); };
  TableColumns columns = columns_;
  for (size_t i = 0; i < cells.size(); i += width) columns.Measure(row(i));
  std::string out = columns.HeadingLine(indent);
  for (size_t i = 0; i < cells.size(); i += width) out += columns.Line(row(i), indent);
  return out;
}

}  // namespace moepack::cli
