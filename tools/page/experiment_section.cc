// What an experiment found: rows measured on the same held-out tokens, side by side.
#include <algorithm>
#include <iterator>
#include <span>

#include "libshard/base/text/text.h"
#include "tools/page/html.h"
#include "tools/page/section.h"

namespace moepack::cli {
namespace {

// The class of a row's bar, and what the legend says of it.
struct TrialKind {
  const char *css_class, *name;
};
constexpr TrialKind kTrialKinds[] = {{"k1", "as it was"}, {"k2", "calibrated"}, {"k6", "refitted"}};

size_t KindOf(const ExperimentFigures& row) { return row.refitted ? 2 : row.calibrated ? 1 : 0; }

std::string TrialPicture(const std::vector<ExperimentFigures>& rows) {
  PageBars picture{"Mean KL divergence per token of every row", "nats per token", {}, Brief};
  for (const ExperimentFigures& row : rows)
    picture.bars.push_back(
        {row.row, row.kld.mean, row.kld.error, kTrialKinds[KindOf(row)].css_class,
         Cat(FixedWithError(row.kld.mean, row.kld.error, 4), " nats per token")});
  return BarsPicture(picture);
}

// Names the kinds of rows that are drawn.
std::string TrialLegend(const std::vector<ExperimentFigures>& rows) {
  const std::span drawn = std::span(rows).first(std::min(rows.size(), kMostRows));
  std::vector<LegendEntry> entries;
  for (size_t kind = 0; kind < std::size(kTrialKinds); ++kind) {
    const bool there = std::any_of(drawn.begin(), drawn.end(), [&](const ExperimentFigures& row) {
      return KindOf(row) == kind;
    });
    if (there) entries.push_back({kTrialKinds[kind].css_class, kTrialKinds[kind].name});
  }
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

// The best row of the kind, compared to the same row without it; "" unless it clearly lowers the
// damage.
std::string BestFinding(const PageExperiment& experiment, bool ExperimentFigures::*kind,
                        const char* what) {
  const ExperimentFigures* best = nullptr;
  for (const ExperimentFigures& row : experiment.results.rows) {
    const bool better = best == nullptr || row.kld.mean < best->kld.mean;
    if (row.*kind && row.change && better) best = &row;
  }
  // The error of the change is that of paired sessions.
  if (best == nullptr ||
      -best->change->mean <= runtime::IntervalFactor(1, best->sessions) * best->change->error)
    return "";
  return Cat(what, " lowers the KL divergence of <i>", Escaped(best->from), "</i> from ",
             Brief(best->kld.mean - best->change->mean), " to <b>", Brief(best->kld.mean),
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
    section.findings.push_back(
        BestFinding(experiment, &ExperimentFigures::calibrated, "A calibration"));
    section.findings.push_back(BestFinding(experiment, &ExperimentFigures::refitted, "A refit"));
  }
  if (section.body.empty()) return std::nullopt;
  return section;
}

}  // namespace moepack::cli
