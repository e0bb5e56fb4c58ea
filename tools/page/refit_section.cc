// The error of each layer before and after its experts were refitted.
#include <algorithm>
#include <set>

#include "libshard/base/text/text.h"
#include "tools/page/html.h"
#include "tools/page/section.h"
#include "tools/page/svg.h"

namespace moepack::cli {
namespace {

constexpr double kRefitWidth = 372, kRefitHeight = 190, kRefitLeft = 48, kRefitRight = 12,
                 kRefitTop = 30, kRefitBottom = 34;

struct Scale {
  size_t layers = 1;
  double most = 1;  // the largest error of the axis
  double X(size_t place) const {
    const double room = kRefitWidth - kRefitLeft - kRefitRight;
    return layers < 2
               ? kRefitLeft + room / 2
               : kRefitLeft + 8 +
                     (room - 16) * static_cast<double>(place) / static_cast<double>(layers - 1);
  }
  double Y(double error) const {
    return kRefitHeight - kRefitBottom - (kRefitHeight - kRefitTop - kRefitBottom) * error / most;
  }
};

void DrawAxes(const Scale& scale, const std::vector<double>& ticks,
              const std::vector<uint32_t>& layers, Svg& svg) {
  for (const double tick : ticks) {
    svg.Line(kRefitLeft, scale.Y(tick), kRefitWidth - kRefitRight, scale.Y(tick), "grid");
    svg.Text(kRefitLeft - 6, scale.Y(tick) + 4, Brief(tick), "e quiet");
  }
  const size_t every = (layers.size() + 9) / 10;
  for (size_t i = 0; i < layers.size(); i += every)
    svg.Text(scale.X(i), kRefitHeight - kRefitBottom + 16, Cat(layers[i]), "m quiet");
  svg.Text(kRefitWidth - kRefitRight, kRefitHeight - 4, "layer", "e quiet");
}

// One group: before is dashed, after is solid; a cross where nothing was accepted.
std::string RefitPicture(const RefitRecord& record, uint32_t group,
                         const std::vector<uint32_t>& layers, const Scale& scale,
                         const std::vector<double>& ticks) {
  Svg svg(kRefitWidth, kRefitHeight,
          Cat("Error of each layer of node ", group, " before and after refit"));
  svg.Text(0, 14, Cat("node ", group), "strong");
  DrawAxes(scale, ticks, layers, svg);
  std::vector<Svg::Point> before, after;
  for (size_t i = 0; i < layers.size(); ++i) {
    const RefitOutcome* outcome = record.Find(layers[i], group);
    if (outcome == nullptr) continue;
    before.push_back({scale.X(i), scale.Y(outcome->error_before)});
    after.push_back(
        {scale.X(i), scale.Y(outcome->accepted ? outcome->error_after : outcome->error_before)});
  }
  svg.Polyline(before, "line before");
  svg.Polyline(after, "line after");
  size_t place = 0;
  for (const uint32_t layer : layers) {
    const RefitOutcome* outcome = record.Find(layer, group);
    if (outcome == nullptr) continue;
    svg.Circle(before[place].x, before[place].y, 3, "hollow",
               Cat("layer ", layer, " before: ", Fixed(outcome->error_before, 4)));
    svg.Circle(after[place].x, after[place].y, 4, outcome->accepted ? "k1" : "k3",
               outcome->accepted ? Cat("layer ", layer, " after: ", Fixed(outcome->error_after, 4))
                                 : Cat("layer ", layer, ": not accepted"));
    ++place;
  }
  return svg.Render();
}

HtmlTable RefitTable(const RefitRecord& record, size_t number) {
  HtmlTable table(Cat("table-refit-", number),
                  "Error of each layer and node before and after refit",
                  {">layer", ">node", ">before", ">after", "accepted", ">neurons moved",
                   ">least tokens of a slot"});
  for (const RefitOutcome& outcome : record.outcomes) {
    const auto least = std::min_element(outcome.slot_tokens.begin(), outcome.slot_tokens.end());
    table.Row({Cat(outcome.layer), Cat(outcome.group), Fixed(outcome.error_before, 4),
               Fixed(outcome.error_after, 4), outcome.accepted ? "yes" : "no",
               FormatCount(outcome.neurons_moved),
               least == outcome.slot_tokens.end() ? "-" : FormatCount(*least)});
  }
  return table;
}

std::string RefitFinding(const RefitRecord& record) {
  uint64_t accepted = 0;
  double before = 0, after = 0;
  for (const RefitOutcome& outcome : record.outcomes) {
    accepted += outcome.accepted;
    before += outcome.error_before;
    after += outcome.accepted ? outcome.error_after : outcome.error_before;
  }
  const double count = static_cast<double>(record.outcomes.size());
  return Cat("Refit lowers the mean error of a layer's output from <b>", Fixed(before / count, 3),
             " to ", Fixed(after / count, 3), "</b> of what the whole model adds; it was accepted ",
             FormatCount(accepted), " of ", Plural(record.outcomes.size(), "time"), ".");
}

std::string Method(const RefitRecord& record) {
  uint64_t tokens = 0;
  for (const CalibrationText& text : record.calibration)
    tokens += text.taken ? text.taken->tokens : text.tokens;
  std::string out =
      Cat("Steps: ", Escaped(moepack::Join(record.steps, ", ")), "; ", Plural(tokens, "token"),
          " of ", Plural(record.calibration.size(), "calibration text"));
  for (const std::string& option : ParameterOptions(record)) out += Cat("; ", Escaped(option));
  return Paragraph(out + ".");
}

// Names what the pictures of these groups have.
std::string RefitLegend(const RefitRecord& record, const std::vector<uint32_t>& drawn) {
  const auto any = [&](bool accepted) {
    return std::any_of(record.outcomes.begin(), record.outcomes.end(),
                       [&](const RefitOutcome& outcome) {
                         return outcome.accepted == accepted &&
                                std::find(drawn.begin(), drawn.end(), outcome.group) != drawn.end();
                       });
  };
  std::vector<LegendEntry> entries = {{"key-hollow", "before"}};
  if (any(true)) entries.push_back({"k1 round", "after"});
  if (any(false)) entries.push_back({"k3 round", "not accepted: the source's weights stay"});
  return Legend(entries);
}

std::string OfRecord(const RefitRecord& record, size_t number) {
  std::set<uint32_t> layer_set, groups;
  double most = 0;
  for (const RefitOutcome& outcome : record.outcomes) {
    layer_set.insert(outcome.layer);
    groups.insert(outcome.group);
    most = std::max({most, outcome.error_before, outcome.error_after});
  }
  const std::vector<uint32_t> layers(layer_set.begin(), layer_set.end());
  const std::vector<uint32_t> drawn(
      groups.begin(),
      std::next(groups.begin(), static_cast<ptrdiff_t>(std::min(groups.size(), kMostRows))));
  const std::vector<double> ticks = RoundTicks(most > 0 ? most : 1, 4);
  const Scale scale{layers.size(), ticks.back()};
  std::vector<std::string> pictures;
  for (const uint32_t group : drawn)
    pictures.push_back(RefitPicture(record, group, layers, scale, ticks));
  return Method(record) +
         Figure(RefitLegend(record, drawn) + SideBySide(pictures),
                "Squared error of what the node adds to its stream, as a share of what the whole "
                "model adds, on text that was held out from the refit.",
                RefitTable(record, number));
}

}  // namespace

std::optional<PageSection> RefitSection(const PageInputs& inputs) {
  PageSection section{"refit", "What refit improved", ""};
  size_t number = 0;
  for (const RefitRecord& record : inputs.refits) {
    if (record.outcomes.empty()) continue;
    section.body += OfRecord(record, ++number);
    section.findings.push_back(RefitFinding(record));
  }
  if (section.body.empty()) return std::nullopt;
  return section;
}

}  // namespace moepack::cli
