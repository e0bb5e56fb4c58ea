// What an experiment found: rows measured on the same held-out tokens, side by side.
#include <algorithm>
#include <iterator>
#include <span>

#include "libshard/base/text/text.h"
#include "tools/page/html.h"
#include "tools/page/section.h"
#include "tools/page/svg.h"

namespace moepack::cli {
namespace {

constexpr double kTrialWidth = 760, kTrialLeft = 230, kTrialRight = 70, kTrialTop = 10,
                 kTrialRow = 24, kTrialBar = 12, kTrialAxis = 24;
constexpr int kTrialTicks = 5;

double LargestKld(const std::vector<ExperimentFigures>& rows) {
  double most = 1e-6;
  for (const ExperimentFigures& row : rows) most = std::max(most, row.kld.mean + row.kld.error);
  return most;
}

std::string TrialPicture(const std::vector<ExperimentFigures>& rows) {
  const std::vector<double> ticks = RoundTicks(LargestKld(rows), kTrialTicks);
  const auto at = [&](double kld) {
    const double share = std::clamp(kld / ticks.back(), 0.0, 1.0);
    return kTrialLeft + share * (kTrialWidth - kTrialLeft - kTrialRight);
  };
  const size_t drawn = std::min(rows.size(), kMostRows);
  const double height = kTrialTop + kTrialRow * static_cast<double>(drawn);
  Svg svg(kTrialWidth, height + kTrialAxis, "Mean KL divergence per token of every row");
  for (const double tick : ticks) {
    svg.Line(at(tick), kTrialTop, at(tick), height, "grid");
    svg.Text(at(tick), height + 16, Brief(tick), "m quiet");
  }
  svg.Text(kTrialLeft - 10, height + 16, "nats per token", "e quiet");
  for (size_t i = 0; i < drawn; ++i) {
    const ExperimentFigures& row = rows[i];
    const double middle = kTrialTop + kTrialRow * (static_cast<double>(i) + 0.5);
    svg.Text(kTrialLeft - 10, middle + 4, row.row, "e");
    svg.Rect(kTrialLeft, middle - kTrialBar / 2, at(row.kld.mean) - kTrialLeft, kTrialBar,
             row.refitted ? "k6" : "k1",
             Cat(row.row, ": ", FixedWithError(row.kld.mean, row.kld.error, 4), " nats per token"));
    svg.Line(at(row.kld.mean - row.kld.error), middle, at(row.kld.mean + row.kld.error), middle,
             "whisker");
    svg.Text(at(row.kld.mean + row.kld.error) + 8, middle + 4, Brief(row.kld.mean), "strong");
  }
  return svg.Render();
}

// Names the kinds of rows that are drawn.
std::string TrialLegend(const std::vector<ExperimentFigures>& rows) {
  const std::span drawn = std::span(rows).first(std::min(rows.size(), kMostRows));
  const auto refitted = std::count_if(drawn.begin(), drawn.end(),
                                      [](const ExperimentFigures& row) { return row.refitted; });
  std::vector<LegendEntry> entries;
  if (refitted < std::ssize(drawn)) entries.push_back({"k1", "as it was"});
  if (refitted > 0) entries.push_back({"k6", "refitted"});
  return Legend(entries);
}

HtmlTable TrialTable(size_t number, const std::vector<ExperimentFigures>& rows) {
  HtmlTable table(
      Cat("table-experiment-", number),
      "Rows of the experiment, each session on the node that captures most of it",
      {"row", ">a node", ">KLD", ">lost nats", ">same top-1", "compared with", ">change of KLD"});
  for (const ExperimentFigures& row : rows) {
    table.Row({row.row, row.node_bytes ? FormatBytes(*row.node_bytes) : "-",
               FixedWithError(row.kld.mean, row.kld.error, 4),
               FixedWithError(row.loss.mean, row.loss.error, 4), Percent(row.top1.mean),
               row.from.empty() ? "-" : row.from,
               row.change ? FixedWithError(row.change->mean, row.change->error, 4) : "-"});
  }
  return table;
}

// The best refit, compared to the same split without it; "" unless it clearly lowers the damage.
std::string RefitFinding(const PageExperiment& experiment) {
  const ExperimentFigures* best = nullptr;
  for (const ExperimentFigures& row : experiment.results.rows) {
    const bool better = best == nullptr || row.kld.mean < best->kld.mean;
    if (row.refitted && row.change && better) best = &row;
  }
  // The error of the change is that of paired sessions.
  if (best == nullptr ||
      -best->change->mean <= runtime::IntervalFactor(1, best->sessions) * best->change->error)
    return "";
  return Cat("A refit lowers the KL divergence of <i>", Escaped(best->from), "</i> from ",
             Fixed(best->kld.mean - best->change->mean, 3), " to <b>", Fixed(best->kld.mean, 3),
             " nats</b> per token (", Escaped(experiment.name), ").");
}

}  // namespace

std::optional<PageSection> ExperimentSection(const PageInputs& inputs) {
  PageSection section{"experiment", "What an experiment compared", ""};
  size_t number = 0;
  for (const PageExperiment& experiment : inputs.experiments) {
    const std::vector<ExperimentFigures>& rows = experiment.results.rows;
    if (rows.empty()) continue;
    section.body +=
        Cat("<h3>", Escaped(experiment.name), "</h3>\n",
            Figure(TrialLegend(rows) + TrialPicture(rows),
                   Cat("KL divergence of the next-token distributions from the whole model, on ",
                       FormatCount(rows.front().sessions), " held-out sessions",
                       experiment.results.complete ? "" : " so far",
                       "; whiskers are standard errors over sessions."),
                   TrialTable(++number, rows)));
    section.findings.push_back(RefitFinding(experiment));
  }
  if (section.body.empty()) return std::nullopt;
  return section;
}

}  // namespace moepack::cli
