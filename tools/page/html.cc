#include "tools/page/html.h"

#include <cassert>
#include <cmath>
#include <cstdio>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"

namespace moepack::cli {
namespace {

bool IsRight(const std::string& heading) { return heading.starts_with('>'); }

}  // namespace

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : Shown(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string Fixed(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  char text[400];  // the largest double has 309 digits
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  const std::string out = text;
  // A number that rounds to zero has no sign.
  const bool zero = out.find_first_not_of("-0.") == std::string::npos;
  return zero && out.starts_with('-') ? out.substr(1) : out;
}

std::string FixedWithError(double value, double error, int digits) {
  return Fixed(value, digits) + " ± " + Fixed(error, digits);
}

std::string Percent(double share) { return Fixed(100 * share, 1) + " %"; }

std::string Brief(double value) {
  const double size = std::abs(value);
  if (size >= 99.5) return Fixed(value, 0);
  if (size >= 9.95) return Fixed(value, 1);
  if (size >= 0.995 || size == 0) return Fixed(value, size == 0 ? 0 : 2);
  return Fixed(value, size >= 0.0995 ? 3 : 4);
}

HtmlTable::HtmlTable(std::string id, std::string caption, std::vector<std::string> headings)
    : id_(std::move(id)), caption_(std::move(caption)), headings_(std::move(headings)) {}

void HtmlTable::Row(const std::vector<std::string>& cells) {
  assert(cells.size() == headings_.size());
  body_ += "<tr>";
  for (size_t i = 0; i < cells.size(); ++i) {
    const char* tag = i == 0 ? "th" : "td";
    body_ += Cat("<", tag, i == 0 ? " scope=\"row\"" : "",
                 IsRight(headings_[i]) ? " class=\"n\">" : ">", Escaped(cells[i]), "</", tag, ">");
  }
  body_ += "</tr>\n";
  ++rows_;
}

std::string HtmlTable::Render() const {
  std::string out = Cat("<div class=\"scroll\" tabindex=\"0\"><table id=\"", id_, "\"><caption>",
                        Escaped(caption_), "</caption>\n<thead><tr>");
  for (const std::string& heading : headings_) {
    const bool right = IsRight(heading);
    out += Cat("<th scope=\"col\"", right ? " class=\"n\">" : ">",
               Escaped(right ? heading.substr(1) : heading), "</th>");
  }
  return Cat(out, "</tr></thead>\n<tbody>\n", body_, "</tbody></table></div>\n");
}

std::string Figure(std::string_view picture, std::string_view caption, const HtmlTable& table) {
  return Cat("<figure>\n<div class=\"picture\">\n", picture, "</div>\n<figcaption>", caption,
             "</figcaption>\n<details><summary>The numbers (", Escaped(Plural(table.rows(), "row")),
             ")</summary>\n", table.Render(), "</details>\n</figure>\n");
}

std::string SideBySide(const std::vector<std::string>& pictures) {
  std::string out = "<div class=\"beside\">\n";
  for (const std::string& picture : pictures) out += Cat("<div>\n", picture, "</div>\n");
  return out + "</div>\n";
}

std::string Paragraph(std::string_view html) { return Cat("<p>", html, "</p>\n"); }

std::string CommandBlock(std::string_view line) {
  return Cat("<pre><code>", Escaped(line), "</code></pre>\n");
}

std::string Legend(const std::vector<LegendEntry>& entries) {
  std::string out = "<ul class=\"legend\">";
  for (const LegendEntry& entry : entries)
    out +=
        Cat("<li><span class=\"key ", entry.css_class, "\"></span>", Escaped(entry.text), "</li>");
  return out + "</ul>\n";
}

}  // namespace moepack::cli
