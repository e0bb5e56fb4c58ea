// Which node sessions are sent to, compared to the one that suits them best.
#include <algorithm>

#include "libshard/base/text/text.h"
#include "tools/page/html.h"
#include "tools/page/section.h"

namespace moepack::cli {
namespace {

using runtime::EvalSummary;
using runtime::SessionChoice;

// A way to choose a group; no value for a session for which it names none that was run.
struct Rule {
  const char *id, *name;
  std::optional<uint32_t> (*choose)(const SessionChoice& session);
};
constexpr Rule kRules[] = {
    {"table", "the placement table", [](const SessionChoice& session) { return session.by_table; }},
    {"race", "the race of the first tokens",
     [](const SessionChoice& session) { return std::optional(session.race.winner); }},
    {"capture", "captured gate mass",
     [](const SessionChoice& session) { return std::optional(session.by_capture); }},
};

std::string CountText(double count) { return count == 0 ? "" : Fixed(count, 0); }

struct Confusion {
  std::vector<double> counts;  // [chosen][best by KLD]
  uint64_t sessions = 0, right = 0;
  double regret = 0;  // sum, in nats per token
};

Confusion Count(const EvalSummary& summary, const Rule& rule) {
  Confusion confusion;
  const size_t groups = summary.groups.size();
  confusion.counts.assign(groups * groups, 0);
  for (const SessionChoice& session : summary.sessions) {
    const std::optional<uint32_t> chosen = rule.choose(session);
    if (!chosen) continue;
    ++confusion.sessions;
    confusion.right += *chosen == session.by_kld;
    confusion.regret += session.divergences[*chosen] - session.divergences[session.by_kld];
    ++confusion.counts[*chosen * groups + session.by_kld];
  }
  return confusion;
}

std::string ConfusionFigure(const EvalSummary& summary, const Rule& rule, size_t number,
                            const Confusion& confusion) {
  PageMatrix matrix{Cat("Sessions by the node that ", rule.name, " chooses and the best node"),
                    "lowest KLD",
                    "chosen",
                    {},
                    {},
                    confusion.counts,
                    0,
                    CountText,
                    true};
  std::vector<std::string> headings = {"chosen"};
  for (const runtime::EvalRow& group : summary.groups) {
    matrix.columns.push_back(group.label);
    matrix.rows.push_back(group.label);
    headings.push_back(">" + group.label);
  }
  HtmlTable table(Cat("table-", rule.id, "-", number),
                  Cat("Sessions by the node that ", rule.name, " chooses, and by the best node"),
                  headings);
  for (size_t r = 0; r < matrix.rows.size(); ++r) {
    std::vector<std::string> cells = {matrix.rows[r]};
    for (size_t c = 0; c < matrix.columns.size(); ++c)
      cells.push_back(Fixed(confusion.counts[r * matrix.columns.size() + c], 0));
    table.Row(cells);
  }
  matrix.most = std::max(1.0, *std::max_element(confusion.counts.begin(), confusion.counts.end()));
  const double sessions = static_cast<double>(confusion.sessions);
  return Figure(MatrixPicture(matrix),
                Cat("By ", rule.name, ": ", FormatCount(confusion.right), " of ",
                    Plural(confusion.sessions, "session"),
                    " go to the node with the lowest KL divergence; the others lose ",
                    Fixed(confusion.regret / sessions, 4), " nats per token on average over all."),
                table);
}

std::string OfEvaluation(const PageEvaluation& evaluation, size_t number,
                         std::vector<std::string>& findings) {
  const EvalSummary& summary = evaluation.report.summary;
  std::vector<std::string> figures;
  for (const Rule& rule : kRules) {
    const Confusion confusion = Count(summary, rule);
    if (confusion.sessions == 0) continue;
    figures.push_back(ConfusionFigure(summary, rule, number, confusion));
    if (figures.size() == 1)
      findings.push_back(Cat("Choosing by ", rule.name, " sends <b>", FormatCount(confusion.right),
                             " of ", FormatCount(confusion.sessions),
                             "</b> sessions to the node that answers most like the whole model (",
                             Escaped(evaluation.name), ")."));
  }
  return Cat("<h3>", Escaped(evaluation.name), "</h3>\n", SideBySide(figures));
}

std::string TrialText(const PlacementTrial& trial) {
  return Paragraph(Cat("When the placement table was made, each of ", FormatCount(trial.sessions),
                       " sessions was left out once: the table sent ", FormatCount(trial.right),
                       " of them to their node, and was sure of ", FormatCount(trial.sure),
                       ", of which ", FormatCount(trial.sure_right), " were right."));
}

}  // namespace

std::optional<PageSection> PlacementSection(const PageInputs& inputs) {
  PageSection section{"placement", "Where sessions are sent", ""};
  if (inputs.plan && inputs.plan->placement)
    section.body += TrialText(inputs.plan->placement->trial);
  size_t number = 0;
  for (const PageEvaluation& evaluation : inputs.evaluations) {
    ++number;
    const EvalSummary& summary = evaluation.report.summary;
    const size_t groups = summary.groups.size();
    if (groups > 1 && groups <= kMostInMatrix && !summary.sessions.empty())
      section.body += OfEvaluation(evaluation, number, section.findings);
  }
  if (section.body.empty()) return std::nullopt;
  return section;
}

}  // namespace moepack::cli
