#include "tools/table.h"

#include <algorithm>
#include <cassert>

#include "libshard/quote.h"

namespace cli {
namespace {

constexpr size_t kGap = 2;

// Columns as a terminal shows them: bytes that continue a UTF-8 character take no room.
size_t DisplayWidth(std::string_view text) {
  size_t width = 0;
  for (const char c : text) width += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return width;
}

}  // namespace

Table::Table(std::initializer_list<std::string_view> headings) {
  for (const std::string_view heading : headings) Heading(heading);
}

Table::Table(const std::vector<std::string>& headings) {
  for (const std::string& heading : headings) Heading(heading);
}

void Table::Heading(std::string_view text) {
  ++columns_;
  right_.push_back(text.starts_with('>'));
  Cell(right_.back() ? text.substr(1) : text);
}

void Table::Cell(std::string_view text) {
  text_ += shard::Shown(text);
  ends_.push_back(text_.size());
}

void Table::Cell(uint64_t number) { Cell(std::to_string(number)); }

void Table::Row(std::initializer_list<std::string_view> cells) {
  assert(cells.size() == columns_);
  for (const std::string_view cell : cells) Cell(cell);
}

std::string_view Table::At(size_t cell) const {
  const size_t start = cell == 0 ? 0 : ends_[cell - 1];
  return std::string_view(text_).substr(start, ends_[cell] - start);
}

std::vector<size_t> Table::Widths() const {
  std::vector<size_t> widths(columns_, 0);
  for (size_t i = 0; i < ends_.size(); ++i) {
    widths[i % columns_] = std::max(widths[i % columns_], DisplayWidth(At(i)));
  }
  return widths;
}

std::string Table::Render(size_t indent) const {
  assert(ends_.size() % columns_ == 0);
  const std::vector<size_t> widths = Widths();
  size_t line = indent;
  for (const size_t width : widths) line += width + kGap;

  std::string out;
  out.reserve(ends_.size() / columns_ * line);
  for (size_t i = 0; i < ends_.size(); ++i) {
    const size_t column = i % columns_;
    const std::string_view cell = At(i);
    const size_t padding = widths[column] - DisplayWidth(cell);
    out.append(column == 0 ? indent : kGap, ' ');
    if (right_[column]) out.append(padding, ' ');
    out += cell;
    if (!right_[column]) out.append(padding, ' ');
    if (column + 1 < columns_) continue;
    while (out.ends_with(' ')) out.pop_back();
    out += '\n';
  }
  return out;
}

}  // namespace cli
