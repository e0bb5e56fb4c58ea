#include "tools/reports/planning/expectation_report.h"

#include "libshard/base/text/text.h"
#include "tools/base/output.h"
#include "tools/base/table.h"

namespace moepack::cli {
namespace {

std::string BasisText(ScoreBasis basis) {
  switch (basis) {
    case ScoreBasis::kCount:
      return "how often experts are chosen";
    case ScoreBasis::kGateMass:
      return "gates";
    case ScoreBasis::kWeightedNorm:
      return "gate x norm of output";
  }
  return "";
}

void AddSummary(Table& table, const std::string& name, const CaptureSummary& summary) {
  const bool none = summary.sessions == 0;
  table.Row({name, FormatCount(summary.sessions), none ? "-" : FormatShare(summary.mean),
             none ? "-" : FormatShare(summary.p25), none ? "-" : FormatShare(summary.p5)});
}

std::string PinnedText(const LayerExperts& pinned) {
  std::string out;
  for (const auto& [layer, ids] : pinned)
    out += Cat(out.empty() ? "" : "; ", "layer ", layer, ": ", FormatIds(ids));
  return out.empty() ? "" : Cat("pinned on every node: ", out, "\n");
}

}  // namespace

std::string ExpectationText(const PlanExpectation& expectation) {
  std::string text = Cat(
      "expected from ", Shown(expectation.format), ", ", Plural(expectation.sessions, "session"),
      " (", BasisText(expectation.basis), "), measured on ",
      expectation.held_out > 0 ? Cat(expectation.held_out, " held out")
                               : std::string("the same, because none was held out"),
      "\n", PinnedText(expectation.pinned));
  text += "what a session uses and its node has, mean over layers\n";
  Table table({"node", ">sessions", ">mean", ">P25", ">P5"});
  for (size_t group = 0; group < expectation.groups.size(); ++group)
    AddSummary(table, std::to_string(group), expectation.groups[group]);
  AddSummary(table, "all", expectation.overall);
  AddSummary(table, "if contiguous", expectation.contiguous);
  AddSummary(table, "if all nodes had the same", expectation.same);
  AddSummary(table, "if each session had its own", expectation.oracle);
  return text + table.Render();
}

}  // namespace moepack::cli
