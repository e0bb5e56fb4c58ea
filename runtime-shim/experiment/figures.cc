#include "runtime-shim/experiment/figures.h"

#include <algorithm>
#include <cassert>
#include <span>

#include "runtime-shim/eval/summary.h"

namespace moepack::runtime {
namespace {

template <class T>
std::vector<T> Cut(const std::vector<T>& all, GroupRange range) {
  const auto first = all.begin() + static_cast<ptrdiff_t>(range.first);
  return {first, first + static_cast<ptrdiff_t>(range.count)};
}

// The model stays, as the teacher of the split or as the reference.
NodeFigures FiguresOfNode(const EvalSummary& summary, const EvalRow& row) {
  // Against the reference if there is one: then quantization and split count together.
  const Damage& damage = row.total ? *row.total : *row.split;
  const Likelihood& model =
      summary.reference ? summary.reference->likelihood : summary.full->likelihood;
  return {damage.mean, model.log_probability - row.likelihood.log_probability, damage.top1,
          row.capture};
}

NodeFigures FiguresOfWhole(const EvalSummary& summary) {
  return {summary.quantization->mean,
          summary.reference->likelihood.log_probability - summary.full->likelihood.log_probability,
          summary.quantization->top1, 1};
}

}  // namespace

std::string_view NameOf(Choice choice) {
  constexpr std::string_view kNames[] = {"capture", "race", "best", "any"};
  return kNames[static_cast<size_t>(choice)];
}

NodeFigures Under(Choice choice, const SessionFigures& session) {
  const std::vector<NodeFigures>& nodes = session.nodes;
  assert(!nodes.empty() && session.raced < nodes.size());
  switch (choice) {
    case Choice::kCapture:
      return *std::max_element(
          nodes.begin(), nodes.end(),
          [](const NodeFigures& a, const NodeFigures& b) { return a.capture < b.capture; });
    case Choice::kRace:
      return nodes[session.raced];
    case Choice::kBest:
      return *std::min_element(
          nodes.begin(), nodes.end(),
          [](const NodeFigures& a, const NodeFigures& b) { return a.kld < b.kld; });
    case Choice::kAny:
      break;
  }
  NodeFigures mean;
  const auto count = static_cast<double>(nodes.size());
  for (const NodeFigures& node : nodes) {
    mean.kld += node.kld / count;
    mean.loss += node.loss / count;
    mean.top1 += node.top1 / count;
    mean.capture += node.capture / count;
  }
  return mean;
}

SessionFigures FiguresOf(const EvalInput& input, const SessionMeasure& measure, GroupRange groups,
                         uint32_t race_tokens) {
  EvalInput some = input;
  some.groups = Cut(input.groups, groups);
  SessionMeasure of_some = measure;
  of_some.groups = Cut(measure.groups, groups);
  const EvalSummary summary = SummarizeEvaluation(some, {&of_some, 1}, race_tokens);
  SessionFigures figures;
  figures.name = measure.name;
  figures.bucket = measure.bucket;
  const EvalBase& model = summary.reference ? *summary.reference : *summary.full;
  figures.tokens = model.likelihood.tokens;
  if (groups.count == 0) {
    figures.nodes.push_back(FiguresOfWhole(summary));
    return figures;
  }
  for (const EvalRow& row : summary.groups) figures.nodes.push_back(FiguresOfNode(summary, row));
  figures.raced = summary.sessions.front().race.winner;
  return figures;
}

}  // namespace moepack::runtime
