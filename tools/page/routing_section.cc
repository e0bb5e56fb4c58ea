// Heat maps: which experts the routers use, layer by layer, and which group owns them.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "libshard/base/text/text.h"
#include "libshard/stats/quantile.h"
#include "tools/page/html.h"
#include "tools/page/section.h"
#include "tools/page/svg.h"

namespace moepack::cli {
namespace {

constexpr size_t kMostBuckets = 8;
constexpr size_t kMostTips = 2048;  // cells of a picture with a tooltip
constexpr double kMapRoom = 700, kLabelRoom = 34, kHeadRoom = 44;
constexpr size_t kNobody = SIZE_MAX;

// Which expert is in a cell, and who owns it.
struct Cell {
  uint32_t expert = 0;
  size_t owner = kNobody;  // the group
  bool overlay = false;
};
using CellRow = std::vector<Cell>;

// The share of its layer's score for each expert, concatenated as in SessionScores::scores.
using Shares = std::vector<double>;

struct Map {
  std::string title;
  Shares shares;
};

Shares SharesOf(const ExpertScores& scores, std::vector<double> sums) {
  for (size_t i = 0; i < scores.layers.size(); ++i) {
    const auto first = sums.begin() + static_cast<ptrdiff_t>(scores.Offset(i));
    const auto last = first + scores.layers[i].expert_count;
    const double all = std::accumulate(first, last, 0.0);
    if (all > 0) std::for_each(first, last, [&](double& sum) { sum /= all; });
  }
  return sums;
}

// All sessions, then each bucket, in the order of their first session.
std::vector<Map> MapsOf(const ExpertScores& scores) {
  std::vector<Map> maps = {{"all sessions", SharesOf(scores, SumOfScores(scores))}};
  std::vector<std::string> buckets;
  for (const SessionScores& session : scores.sessions) {
    if (std::find(buckets.begin(), buckets.end(), session.bucket) == buckets.end())
      buckets.push_back(session.bucket);
  }
  if (buckets.size() < 2) return maps;
  for (const std::string& bucket : buckets) {
    std::vector<size_t> sessions;
    for (size_t i = 0; i < scores.sessions.size(); ++i) {
      if (scores.sessions[i].bucket == bucket) sessions.push_back(i);
    }
    maps.push_back(
        {bucket.empty() ? "(no bucket)" : bucket, SharesOf(scores, SumOfScores(scores, sessions))});
  }
  return maps;
}

// By owner, then by share over all sessions, so that every group is one block.
CellRow OrderedRow(const PageInputs& inputs, size_t index, const Shares& shares) {
  const MoeLayerShape& shape = inputs.scores->layers[index];
  const size_t offset = inputs.scores->Offset(index);
  CellRow row(shape.expert_count);
  for (uint32_t id = 0; id < shape.expert_count; ++id) row[id].expert = id;
  if (inputs.plan) {
    const OverlayPlan* overlay = inputs.plan->current_overlay();
    for (size_t g = 0; g < inputs.plan->groups.size(); ++g) {
      for (const uint32_t id : IdsOf(inputs.plan->groups[g].owned, shape.layer)) row[id].owner = g;
    }
    for (Cell& cell : row)
      cell.overlay = overlay != nullptr &&
                     Contains(IdsOf(overlay->experts_by_layer, shape.layer), cell.expert);
  }
  std::stable_sort(row.begin(), row.end(), [&](const Cell& a, const Cell& b) {
    if (a.owner != b.owner) return a.owner < b.owner;
    return shares[offset + a.expert] > shares[offset + b.expert];
  });
  return row;
}

struct Grid {
  double cell = 0, height = 0;
  double X(size_t column) const { return kLabelRoom + cell * static_cast<double>(column); }
  double Y(size_t row) const { return kHeadRoom + height * static_cast<double>(row); }
};

Grid GridFor(size_t layers, size_t experts) {
  Grid grid;
  grid.cell = std::clamp(kMapRoom / static_cast<double>(experts), 2.5, 22.0);
  grid.height = std::clamp(480 / static_cast<double>(layers), 5.0, 22.0);
  return grid;
}

// The value of a cell is its share times the number of experts: 1 if all are used equally. A square
// root gives small values more of the scale.
double TimesEven(const Shares& shares, size_t place, size_t experts) {
  return shares[place] * static_cast<double>(experts);
}
int HeatStep(double times, double most) { return StepOf(std::sqrt(most > 0 ? times / most : 0)); }

// The end of each group's block in a row, at [group].
using BlockEnds = std::vector<size_t>;

BlockEnds EndsOf(const CellRow& row, size_t groups) {
  BlockEnds ends(groups, 0);
  for (size_t g = 0; g < groups; ++g) {
    ends[g] = static_cast<size_t>(
        std::count_if(row.begin(), row.end(), [&](const Cell& cell) { return cell.owner <= g; }));
  }
  return ends;
}

// The outline of one group's cells: down its right side, up its left side.
std::string Outline(const std::vector<BlockEnds>& ends, size_t group, const Grid& grid) {
  std::string right, left;
  for (size_t r = 0; r < ends.size(); ++r) {
    const std::string x = Coordinate(grid.X(ends[r][group]));
    right += Cat(r == 0 ? "M" : "L", x, " ", Coordinate(grid.Y(r)), "L", x, " ",
                 Coordinate(grid.Y(r + 1)));
    const std::string start = Coordinate(grid.X(group == 0 ? 0 : ends[r][group - 1]));
    left = Cat("L", start, " ", Coordinate(grid.Y(r + 1)), "L", start, " ", Coordinate(grid.Y(r)),
               left);
  }
  return right + left + "Z";
}

void AddOutlines(const std::vector<BlockEnds>& ends, const Grid& grid, Svg& svg) {
  for (size_t g = 0; g < ends[0].size(); ++g) {
    const std::string outline = Outline(ends, g, grid);
    svg.Path(outline, "halo");
    svg.Path(outline, "outline");
    const double from = grid.X(g == 0 ? 0 : ends[0][g - 1]), to = grid.X(ends[0][g]);
    const double middle = (from + to) / 2;
    if (to - from >= 48) {
      svg.Text(middle, kHeadRoom - 8, Cat("node ", g), "m quiet");
    } else if (to - from >= 12) {
      svg.Text(middle, kHeadRoom - 8, Cat(g), "m quiet");
    }
  }
}

std::string TipOf(const PageInputs& inputs, size_t layer, const Cell& cell, double share) {
  std::string tip = Cat("layer ", inputs.scores->layers[layer].layer, ", expert ", cell.expert,
                        ": ", Percent(share));
  if (cell.owner != kNobody) tip += Cat(", node ", cell.owner);
  if (cell.overlay) tip += ", overlay";
  return tip;
}

void AddCells(const PageInputs& inputs, const std::vector<CellRow>& rows, const Map& map,
              double most, const Grid& grid, Svg& svg) {
  size_t cells = 0;
  for (const CellRow& row : rows) cells += row.size();
  std::vector<std::string> paths(kColourSteps);
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t c = 0; c < rows[r].size(); ++c) {
      const size_t place = inputs.scores->Offset(r) + rows[r][c].expert;
      const int step = HeatStep(TimesEven(map.shares, place, rows[r].size()), most);
      if (cells <= kMostTips) {
        svg.Rect(grid.X(c), grid.Y(r), grid.cell, grid.height, StepClass(step),
                 TipOf(inputs, r, rows[r][c], map.shares[place]));
      } else {
        paths[static_cast<size_t>(step)] +=
            Cat("M", Coordinate(grid.X(c)), " ", Coordinate(grid.Y(r)), "h", Coordinate(grid.cell),
                "v", Coordinate(grid.height), "h-", Coordinate(grid.cell), "z");
      }
      if (rows[r][c].overlay && grid.cell >= 6)
        svg.Circle(grid.X(c) + grid.cell / 2, grid.Y(r) + grid.height / 2, 2, "dot");
    }
  }
  for (int step = 0; step < kColourSteps; ++step) {
    const std::string& path = paths[static_cast<size_t>(step)];
    if (!path.empty()) svg.Path(path, StepClass(step));
  }
}

std::string HeatMap(const PageInputs& inputs, const std::vector<CellRow>& rows, const Map& map,
                    double most) {
  size_t experts = 1;
  for (const CellRow& row : rows) experts = std::max(experts, row.size());
  const Grid grid = GridFor(rows.size(), experts);
  Svg svg(grid.X(experts) + 4, grid.Y(rows.size()) + 6,
          Cat("Router mass by layer and expert, ", map.title));
  svg.Text(0, 14, map.title, "strong");
  AddCells(inputs, rows, map, most, grid, svg);
  // As many labels as there is room for.
  const auto every = static_cast<size_t>(std::ceil(13 / grid.height));
  for (size_t r = 0; r < rows.size(); r += every)
    svg.Text(kLabelRoom - 6, grid.Y(r) + grid.height / 2 + 4, Cat(inputs.scores->layers[r].layer),
             "e quiet");
  std::vector<BlockEnds> ends;
  for (const CellRow& row : rows)
    ends.push_back(EndsOf(row, inputs.plan ? inputs.plan->groups.size() : 0));
  AddOutlines(ends, grid, svg);
  return svg.Render();
}

std::string ScaleLegend(double most) {
  std::string out = "<ul class=\"legend scale\">";
  for (int step = 0; step < kColourSteps; step += 3) {
    const double share = (step + 0.5) / kColourSteps;
    out += Cat("<li><span class=\"key ", StepClass(step), "\"></span>",
               Fixed(share * share * most, 1), " ×</li>");
  }
  return out + "</ul>\n";
}

HtmlTable MassTable(const PageInputs& inputs, const std::vector<CellRow>& rows,
                    const std::vector<Map>& maps) {
  std::vector<std::string> headings = {">layer", ">expert", ">node"};
  for (const Map& map : maps) headings.push_back(">" + map.title);
  HtmlTable table("table-mass", "Share of router mass by layer and expert", headings);
  for (size_t r = 0; r < rows.size(); ++r) {
    for (const Cell& cell : rows[r]) {
      std::vector<std::string> cells = {
          Cat(inputs.scores->layers[r].layer), Cat(cell.expert),
          cell.owner == kNobody ? "-" : Cat(cell.owner, cell.overlay ? " and overlay" : "")};
      for (const Map& map : maps)
        cells.push_back(Fixed(100 * map.shares[inputs.scores->Offset(r) + cell.expert], 2) + " %");
      table.Row(cells);
    }
  }
  return table;
}

const char* MassName(ScoreBasis basis) {
  switch (basis) {
    case ScoreBasis::kCount:
      return "tokens that chose the expert";
    case ScoreBasis::kGateMass:
      return "gate mass, the sum of the applied gates";
    case ScoreBasis::kWeightedNorm:
      return "gate times the norm of the expert's output";
  }
  return "";
}

// The share of a layer's mass on its most used quarter of experts, in the median layer.
double TopQuarter(const ExpertScores& scores, const Shares& shares) {
  std::vector<double> tops;
  for (size_t i = 0; i < scores.layers.size(); ++i) {
    const auto first = shares.begin() + static_cast<ptrdiff_t>(scores.Offset(i));
    std::vector<double> sorted(first, first + scores.layers[i].expert_count);
    std::sort(sorted.rbegin(), sorted.rend());
    const auto quarter = static_cast<ptrdiff_t>((sorted.size() + 3) / 4);
    tops.push_back(std::accumulate(sorted.begin(), sorted.begin() + quarter, 0.0));
  }
  return Quantile(std::move(tops), 0.5);
}

}  // namespace

std::optional<PageSection> RoutingSection(const PageInputs& inputs) {
  if (!inputs.scores) return std::nullopt;
  const ExpertScores& scores = *inputs.scores;
  const std::vector<Map> maps = MapsOf(scores);
  std::vector<CellRow> rows;
  double most = 1;
  for (size_t i = 0; i < scores.layers.size(); ++i) {
    rows.push_back(OrderedRow(inputs, i, maps[0].shares));
    for (const Map& map : maps) {
      for (size_t e = 0; e < rows[i].size(); ++e)
        most = std::max(most, TimesEven(map.shares, scores.Offset(i) + e, rows[i].size()));
    }
  }
  std::vector<std::string> pictures;
  for (size_t i = 0; i < std::min(maps.size(), kMostBuckets + 1); ++i)
    pictures.push_back(HeatMap(inputs, rows, maps[i], most));
  std::string caption =
      Cat("Rows are layers, columns experts in the order of their share",
          inputs.plan ? " inside the node that owns them (outlined)" : "",
          ". Colours are multiples of an even share. Measured: ", MassName(scores.basis), ", of ",
          Plural(scores.sessions.size(), "session"), ".");
  if (inputs.plan && inputs.plan->current_overlay() != nullptr)
    caption += " A dot marks experts of the overlay, which every node has.";
  if (maps.size() > kMostBuckets + 1)
    caption += Cat(" The first ", kMostBuckets, " buckets are drawn.");
  const double top = TopQuarter(scores, maps[0].shares);
  return PageSection{
      "routing",
      "What the routers use",
      Figure(ScaleLegend(most) + SideBySide(pictures), caption, MassTable(inputs, rows, maps)),
      {Cat("In the median layer a quarter of the experts takes <b>", Percent(top),
           "</b> of the router mass; 25.0 % would be even.")}};
}

}  // namespace moepack::cli
