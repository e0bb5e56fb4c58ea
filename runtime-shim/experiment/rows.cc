#include "runtime-shim/experiment/rows.h"

#include <algorithm>
#include <cassert>

#include "libshard/base/text/text.h"

namespace moepack::runtime {
namespace {

std::vector<Sample> SamplesOf(std::span<const SessionFigures> sessions, Choice choice,
                              Figure figure) {
  std::vector<Sample> samples;
  for (const SessionFigures& session : sessions)
    samples.push_back({Under(choice, session).*figure, session.tokens});
  return samples;
}

}  // namespace

std::string ExperimentRow::label() const {
  const char* what = recipe.empty() ? "split" : strategy.empty() ? "quantization" : "both";
  if (refitted) what = "refit";
  if (calibrated) what = "calibrated";
  return Cat(what, strategy.empty() ? "" : ", ", strategy, recipe.empty() ? "" : ", ", recipe);
}

Estimate EstimateRow(const ExperimentRow& row, Choice choice, Figure figure) {
  return EstimateMean(SamplesOf(row.sessions, choice, figure));
}

Estimate EstimateDifference(const ExperimentRow& a, const ExperimentRow& b, Choice choice,
                            Figure figure) {
  assert(a.sessions.size() == b.sessions.size());
  std::vector<Sample> samples;
  for (size_t i = 0; i < a.sessions.size(); ++i) {
    assert(a.sessions[i].name == b.sessions[i].name);
    // Paired by session: what makes a text hard for both rows falls out of the difference.
    samples.push_back({Under(choice, a.sessions[i]).*figure - Under(choice, b.sessions[i]).*figure,
                       a.sessions[i].tokens});
  }
  return EstimateMean(samples);
}

const ExperimentRow* BaselineOf(const ExperimentRow& row, std::span<const ExperimentRow> rows) {
  const bool changed = row.refitted || row.calibrated;
  if (row.strategy.empty() && !changed) return nullptr;
  for (const ExperimentRow& other : rows) {
    if (other.refitted || other.calibrated || other.recipe != row.recipe) continue;
    if (other.strategy.empty() != row.strategy.empty()) continue;
    if (changed && other.strategy != row.strategy) continue;
    return !changed && other.strategy == row.strategy ? nullptr : &other;
  }
  return nullptr;
}

double LargestError(std::span<const ExperimentRow> rows, size_t count) {
  double largest = 0;
  for (const ExperimentRow& row : rows) {
    const auto first = std::span(row.sessions).first(count);
    largest = std::max(largest,
                       EstimateMean(SamplesOf(first, Choice::kCapture, &NodeFigures::kld)).error);
  }
  return largest;
}

}  // namespace moepack::runtime
