// How many of one node's experts another node also has.
#include "libshard/base/text/text.h"
#include "tools/page/html.h"
#include "tools/page/section.h"

namespace moepack::cli {
namespace {

std::string OverlapText(double share) { return Fixed(100 * share, 0) + " %"; }

// The share of the experts of `a` that both may pick from, averaged over layers.
double OverlapOf(const Plan& plan, size_t a, size_t b) {
  double sum = 0;
  for (const auto& [layer, experts] : plan.layers) {
    const ExpertIds own = Eligible(plan, a, layer), other = Eligible(plan, b, layer);
    size_t common = 0;
    for (const uint32_t id : own) common += Contains(other, id);
    if (!own.empty()) sum += static_cast<double>(common) / static_cast<double>(own.size());
  }
  return plan.layers.empty() ? 0 : sum / static_cast<double>(plan.layers.size());
}

}  // namespace

std::optional<PageSection> OverlapSection(const PageInputs& inputs) {
  if (!inputs.plan || inputs.plan->groups.size() < 2) return std::nullopt;
  const Plan& plan = *inputs.plan;
  const size_t groups = plan.groups.size();
  if (groups > kMostInMatrix) return std::nullopt;
  PageMatrix matrix{"Share of each node's experts that other nodes have",
                    "is on this node too",
                    "of node",
                    {},
                    {},
                    {},
                    1,
                    OverlapText};
  std::vector<std::string> headings = {">of node"};
  for (size_t g = 0; g < groups; ++g) {
    matrix.columns.push_back(Cat("node ", g));
    matrix.rows.push_back(Cat("node ", g));
    headings.push_back(Cat(">node ", g));
  }
  HtmlTable table("table-overlap", "Share of each node's experts that other nodes have", headings);
  double others = 0;
  for (size_t a = 0; a < groups; ++a) {
    std::vector<std::string> cells = {Cat(a)};
    for (size_t b = 0; b < groups; ++b) {
      const double share = OverlapOf(plan, a, b);
      matrix.values.push_back(share);
      cells.push_back(Percent(share));
      if (a != b) others += share;
    }
    table.Row(cells);
  }
  others /= static_cast<double>(groups * (groups - 1));
  return PageSection{
      "overlap",
      "Overlap of the nodes",
      Figure(MatrixPicture(matrix),
             "Experts that the routers of both nodes may pick from, overlay and "
             "fill included, as a share of those of the row's node; the mean over "
             "layers.",
             table),
      {Cat("Two nodes share <b>", Percent(others), "</b> of their experts on average.")}};
}

}  // namespace moepack::cli
