// Pieces of an HTML page. Text that is not ours must go through Escaped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moepack::cli {

// `text` as content of an element or of an attribute in double quotes: none of its characters is
// markup, and control characters are shown as in \x1b.
std::string Escaped(std::string_view text);

// "0.0312": a fixed number of digits after the point.
std::string Fixed(double value, int digits);
// "0.0312 ± 0.0004".
std::string FixedWithError(double value, double error, int digits);
// "93.1 %".
std::string Percent(double share);
// "0.031", "1.24", "17": about three digits, for labels in pictures.
std::string Brief(double value);

// A table that can be read without its picture. A heading that starts with '>' (which is not shown)
// aligns its column to the right.
class HtmlTable {
 public:
  // `id` names the table in the page; `caption` says what is in it. Both are ours.
  HtmlTable(std::string id, std::string caption, std::vector<std::string> headings);
  // One cell per heading, in order; the text may come from anywhere. The first cell heads the row.
  void Row(const std::vector<std::string>& cells);
  size_t rows() const { return rows_; }
  std::string Render() const;

 private:
  std::string id_, caption_;
  std::vector<std::string> headings_;
  std::string body_;
  size_t rows_ = 0;
};

// A picture, what it shows, and the table behind it, which opens on request.
std::string Figure(std::string_view picture, std::string_view caption, const HtmlTable& table);
// Several pictures side by side, as far as there is room.
std::string SideBySide(const std::vector<std::string>& pictures);
// A paragraph of our own words; what is inserted into them must already be escaped.
std::string Paragraph(std::string_view html);
// A line for a shell, to be copied.
std::string CommandBlock(std::string_view line);
// Coloured squares and what they stand for; classes are those of the pictures.
struct LegendEntry {
  std::string css_class, text;
};
std::string Legend(const std::vector<LegendEntry>& entries);

}  // namespace moepack::cli
