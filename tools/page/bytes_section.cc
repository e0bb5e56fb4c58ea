// Bytes of every node, by part.
#include <algorithm>

#include "libshard/base/text/text.h"
#include "tools/base/range_text.h"
#include "tools/page/html.h"
#include "tools/page/section.h"
#include "tools/page/svg.h"

namespace moepack::cli {
namespace {

using manifest::Manifest;

constexpr double kBytesWidth = 760, kBytesLeft = 64, kBytesRight = 96, kBytesTop = 8,
                 kRowHeight = 28, kBytesBar = 18;
constexpr double kAxisRoom = 26, kLetterWidth = 7;

struct Part {
  const char *name, *css_class;
};
constexpr Part kParts[] = {{"trunk", "k0"}, {"group", "k1"}, {"overlay", "k2"}, {"metadata", "k6"}};

struct NodeBytes {
  uint32_t group = 0;
  size_t least = 0, most = 0;  // experts that its routers may pick from, per layer
  std::array<uint64_t, std::size(kParts)> parts = {};  // as in kParts
  uint64_t total() const { return parts[0] + parts[1] + parts[2] + parts[3]; }
};

NodeBytes BytesOfNode(const Manifest& manifest, uint32_t group) {
  NodeBytes node{group, SIZE_MAX, 0, {}};
  node.parts = {manifest.BytesOf(Role::kTrunk), manifest.BytesOf(Role::kGroup, group),
                manifest.BytesOfOverlay(), manifest.BytesOf(Role::kHead)};
  for (const auto& [layer, experts] : manifest.plan.layers) {
    const size_t count = Eligible(manifest.plan, group, layer).size();
    node.least = std::min(node.least, count);
    node.most = std::max(node.most, count);
  }
  return node;
}

// Groups whose files are not here have no node.
std::vector<NodeBytes> NodesOf(const Manifest& manifest) {
  std::vector<NodeBytes> nodes;
  for (uint32_t g = 0; g < manifest.plan.groups.size(); ++g) {
    if (manifest.BytesOf(Role::kGroup, g) > 0) nodes.push_back(BytesOfNode(manifest, g));
  }
  return nodes;
}

std::string Counts(const NodeBytes& node) {
  return node.least == node.most ? Cat(node.most) : Cat(node.least, " to ", node.most);
}

uint64_t SourceBytes(const Manifest& manifest) {
  uint64_t bytes = 0;
  for (const manifest::SourceRecord& source : manifest.model.source) bytes += source.size;
  return bytes;
}

void AddBar(const NodeBytes& node, double y, double per_byte, Svg& svg) {
  svg.Text(kBytesLeft - 8, y + kBytesBar - 5, Cat("node ", node.group), "e");
  double x = kBytesLeft;
  for (size_t p = 0; p < std::size(kParts); ++p) {
    const double width = static_cast<double>(node.parts[p]) * per_byte;
    if (node.parts[p] == 0) continue;
    const std::string text = FormatBytes(node.parts[p]);
    svg.Rect(x, y, width, kBytesBar, kParts[p].css_class, Cat(kParts[p].name, ": ", text));
    if (width > kLetterWidth * static_cast<double>(text.size()) + 8)
      svg.Text(x + 6, y + kBytesBar - 5, text, "on-kind");
    x += width;
  }
  svg.Text(x + 6, y + kBytesBar - 5, FormatBytes(node.total()), "strong");
}

std::string Bars(const std::vector<NodeBytes>& nodes) {
  uint64_t most = 1;
  for (const NodeBytes& node : nodes) most = std::max(most, node.total());
  const size_t rows = std::min(nodes.size(), kMostRows);
  const double height = kBytesTop + kRowHeight * static_cast<double>(rows);
  Svg svg(kBytesWidth, height + kAxisRoom, "Bytes of each node, by part");
  const double per_byte = (kBytesWidth - kBytesLeft - kBytesRight) / static_cast<double>(most);
  for (const double tick : RoundTicks(static_cast<double>(most), 5)) {
    if (tick > static_cast<double>(most)) break;
    const double x = kBytesLeft + tick * per_byte;
    svg.Line(x, kBytesTop - 4, x, height, "grid");
    svg.Text(x, height + 16, FormatBytes(static_cast<uint64_t>(tick)), "m quiet");
  }
  for (size_t i = 0; i < rows; ++i)
    AddBar(nodes[i], kBytesTop + kRowHeight * static_cast<double>(i), per_byte, svg);
  return svg.Render();
}

HtmlTable BytesTable(const std::vector<NodeBytes>& nodes, uint64_t source) {
  HtmlTable table("table-bytes", "Bytes of each node",
                  {"node", ">experts per layer", ">trunk", ">group", ">overlay", ">metadata",
                   ">total", ">share of the source"});
  for (const NodeBytes& node : nodes) {
    const double share =
        source == 0 ? 0 : static_cast<double>(node.total()) / static_cast<double>(source);
    table.Row({Cat(node.group), Counts(node), FormatCount(node.parts[0]),
               FormatCount(node.parts[1]), FormatCount(node.parts[2]), FormatCount(node.parts[3]),
               FormatCount(node.total()), source == 0 ? "-" : Percent(share)});
  }
  return table;
}

std::string BytesFinding(const std::vector<NodeBytes>& nodes, uint64_t source) {
  const auto largest = std::max_element(
      nodes.begin(), nodes.end(),
      [](const NodeBytes& a, const NodeBytes& b) { return a.total() < b.total(); });
  std::string out = Cat("The largest node takes <b>", FormatBytes(largest->total()), "</b>");
  if (source > 0) {
    out += Cat(", ", Percent(static_cast<double>(largest->total()) / static_cast<double>(source)),
               " of the source's ", FormatBytes(source));
  }
  return Cat(out, ", and its routers pick from ",
             RangeText(largest->least, largest->most, "expert"), " per layer.");
}

}  // namespace

std::optional<PageSection> BytesSection(const PageInputs& inputs) {
  if (!inputs.distribution) return std::nullopt;
  const std::vector<NodeBytes> nodes = NodesOf(*inputs.distribution);
  if (nodes.empty()) return std::nullopt;
  const uint64_t source = SourceBytes(*inputs.distribution);
  std::vector<LegendEntry> legend;
  for (size_t p = 0; p < std::size(kParts); ++p) {
    const bool there = std::any_of(nodes.begin(), nodes.end(),
                                   [&](const NodeBytes& node) { return node.parts[p] > 0; });
    if (there) legend.push_back({kParts[p].css_class, kParts[p].name});
  }
  std::string caption =
      "What a node needs on its disk and in memory, without caches: the trunk is the same on every "
      "node, the group is its own.";
  if (nodes.size() > kMostRows) caption += Cat(" The first ", kMostRows, " nodes are drawn.");
  return PageSection{"bytes",
                     "Bytes per node",
                     Figure(Legend(legend) + Bars(nodes), caption, BytesTable(nodes, source)),
                     {BytesFinding(nodes, source)}};
}

}  // namespace moepack::cli
