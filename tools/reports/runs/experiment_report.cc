#include "tools/reports/runs/experiment_report.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/base/table.h"

namespace moepack::cli {
namespace {

using runtime::Choice;
using runtime::Estimate;
using runtime::ExperimentRow;
using runtime::NodeFigures;

// One session alone shows no spread, so no error is given for it.
std::string EstimateText(const ExperimentRow& row, const Estimate& estimate, bool sign = false) {
  char mean[32], error[32];
  std::snprintf(mean, sizeof mean, sign ? "%+.4f" : "%.4f", estimate.mean);
  std::snprintf(error, sizeof error, " ± %.4f", estimate.error);
  return row.sessions.size() > 1 ? Cat(mean, error) : mean;
}

std::string KldText(const ExperimentRow& row, Choice choice) {
  return EstimateText(row, EstimateRow(row, choice, &NodeFigures::kld));
}

std::string ShareText(const ExperimentRow& row, runtime::Figure figure) {
  return FormatShare(EstimateRow(row, Choice::kCapture, figure).mean);
}

uint64_t ScoredTokens(const ExperimentRow& row) {
  uint64_t tokens = 0;
  for (const runtime::SessionFigures& session : row.sessions) tokens += session.tokens;
  return tokens;
}

std::string RowTable(const std::vector<ExperimentRow>& rows) {
  Table table({"row", ">experts", ">a node", ">captured", ">KLD by capture", ">by race",
               ">any node", ">lost nats", ">same top-1"});
  for (const ExperimentRow& row : rows) {
    const bool split = !row.strategy.empty();
    const std::string kld = KldText(row, Choice::kCapture);
    table.Row({row.label(), row.eligible ? std::to_string(*row.eligible) : "-",
               row.node_bytes ? FormatBytes(*row.node_bytes) : "-",
               split ? ShareText(row, &NodeFigures::capture) : "-", kld,
               split ? KldText(row, Choice::kRace) : "-", split ? KldText(row, Choice::kAny) : "-",
               EstimateText(row, EstimateRow(row, Choice::kCapture, &NodeFigures::loss)),
               ShareText(row, &NodeFigures::top1)});
  }
  return table.Render();
}

// Pairing removes the differences between texts, so that small differences show.
std::string DifferenceTable(const runtime::ExperimentRule& rule,
                            const std::vector<ExperimentRow>& rows) {
  Table table({"row", "from", ">KLD by capture", ">lost nats", "95 % interval of lost nats"});
  for (const ExperimentRow& row : rows) {
    const ExperimentRow* base = BaselineOf(row, rows);
    if (base == nullptr) continue;
    const Estimate loss = EstimateDifference(row, *base, Choice::kCapture, &NodeFigures::loss);
    const double half =
        loss.error *
        runtime::IntervalFactor(static_cast<uint32_t>(rule.looks.size()), row.sessions.size());
    char interval[64];
    std::snprintf(interval, sizeof interval, "%+.4f to %+.4f", loss.mean - half, loss.mean + half);
    const Estimate kld = EstimateDifference(row, *base, Choice::kCapture, &NodeFigures::kld);
    table.Row({row.label(), base->label(), EstimateText(row, kld, true),
               EstimateText(row, loss, true), row.sessions.size() > 1 ? interval : "-"});
  }
  return table.empty() ? "" : Cat("\nPaired by session:\n", table.Render());
}

}  // namespace

std::string ExperimentText(const runtime::ExperimentRule& rule,
                           const runtime::ExperimentState& state, const std::string& out) {
  const size_t sessions = state.rows.front().sessions.size();
  std::string text = Cat(Plural(sessions, "held-out session"), ", ",
                         FormatCount(ScoredTokens(state.rows.front())), " scored tokens; ",
                         sessions > 1 ? "errors are standard errors over sessions\n"
                                      : "one session shows no standard error\n");
  text += RowTable(state.rows) + DifferenceTable(rule, state.rows);
  if (rule.until_error > 0) {
    text += Cat(state.stopped ? "stopped at look " : "ended at look ", state.looks_made, " of ",
                rule.looks.size(), ": the largest error of a mean KLD is ",
                FixedPoint(1000 * LargestError(state.rows, sessions)), " thousandths of a nat\n");
  }
  return Cat(text, "wrote ", Shown(out), "\n");
}

std::string ExperimentLine(const runtime::ExperimentState& state, const std::string& out) {
  return Cat("wrote ", Shown(out), ": ", Plural(state.rows.size(), "row"), " on ",
             Plural(state.rows.front().sessions.size(), "held-out session"));
}

std::string ExperimentDryRunText(const ExperimentDryRun& plan) {
  Table table({"weights", ">rows", ">runs", ">tokens", ">in memory", ">time, about"});
  double seconds = 0;
  std::string rows;
  for (const PlannedPass& pass : plan.passes) {
    seconds += pass.seconds;
    table.Row({pass.name, std::to_string(pass.rows.size()), std::to_string(pass.runs),
               FormatCount(pass.tokens), FormatBytes(pass.weight_bytes),
               FormatDuration(pass.seconds)});
    for (const std::string& row : pass.rows) rows += Cat("  ", row, "\n");
  }
  std::string looks;
  for (const size_t look : plan.looks) looks += Cat(looks.empty() ? "" : ", ", look);
  return Cat(Plural(plan.sessions, "held-out session"), ", ", Plural(plan.tokens, "token"),
             "; looks after ", looks, looks == "1" ? " session\n" : " sessions\n", table.Render(),
             "rows:\n", rows, "caches and activations take up to ", FormatBytes(plan.memory),
             " besides the weights\nin all about ", FormatDuration(seconds), ", by ",
             plan.probed_tokens, " tokens that were run now\n");
}

Json ExperimentDryRunJson(const ExperimentDryRun& plan) {
  Json passes = Json::array();
  for (const PlannedPass& pass : plan.passes) {
    passes.push_back({{"weights", pass.name},
                      {"rows", pass.rows},
                      {"runs", pass.runs},
                      {"tokens", pass.tokens},
                      {"weight_bytes", pass.weight_bytes},
                      {"seconds", pass.seconds}});
  }
  return {{"dry_run", true},
          {"sessions", plan.sessions},
          {"tokens", plan.tokens},
          {"looks", plan.looks},
          {"memory", plan.memory},
          {"probed_tokens", plan.probed_tokens},
          {"passes", std::move(passes)}};
}

}  // namespace moepack::cli
